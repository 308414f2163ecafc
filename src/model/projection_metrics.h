#pragma once

#include <span>

#include "waybill/projection_progress.h"

#include "base/metrics.h"

namespace waybill {

// Families for the projections of a database; none, if there are none.
void write_projections(Exposition& out, std::span<const ProjectionProgress> projections);

}  // namespace waybill
