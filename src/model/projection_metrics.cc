#include "model/projection_metrics.h"

#include <array>
#include <string_view>
#include <utility>

namespace waybill {

void write_projections(Exposition& out, std::span<const ProjectionProgress> projections) {
  if (projections.empty()) return;
  const auto family = [&](const char* name, Exposition::Type type, const char* help, const auto& value) {
    out.family(name, type, help);
    for (const ProjectionProgress& one : projections) {
      const std::array<std::pair<std::string_view, std::string_view>, 2> labels{
          {{"projection", one.name}, {"shadow", one.shadow ? "true" : "false"}}};
      out.sample(labels, value(one));
    }
  };
  family("waybill_projection_lag_seconds", Exposition::Type::gauge,
         "How long ago the oldest event was recorded that the projection has not come to; 0 if there is none.",
         [](const ProjectionProgress& one) { return std::chrono::duration<double>(one.lag).count(); });
  family("waybill_projection_behind", Exposition::Type::gauge,
         "Events that the projection has not come to; at most 10,000 are counted.",
         [](const ProjectionProgress& one) { return one.behind; });
  family("waybill_projection_handled_total", Exposition::Type::counter,
         "Events that have had their effect since the projection's tables were made.",
         [](const ProjectionProgress& one) { return one.handled; });
}

}  // namespace waybill
