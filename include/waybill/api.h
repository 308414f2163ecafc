#pragma once

// What a header declares in `namespace WAYBILL_API waybill` is what the shared library offers. Everything else is
// hidden in it.
#define WAYBILL_API [[gnu::visibility("default")]]
#define WAYBILL_HIDDEN [[gnu::visibility("hidden")]]
