#include "admin/demo_page.h"

#include <string_view>
#include <utility>

#include "demo_files.h"

namespace waybill {
namespace {

void add_file(http::Server& server, std::string path, std::string content_type, std::string_view text) {
  server.route("GET", std::move(path), [type = std::move(content_type), text](const http::Request&) {
    return http::Response{.content_type = type, .body = std::string(text)};
  });
}

}  // namespace

void add_demo_page(http::Server& server, std::function<std::string()> status) {
  add_file(server, "/", "text/html; charset=utf-8", demo_files::index_html);
  add_file(server, "/demo.css", "text/css; charset=utf-8", demo_files::demo_css);
  add_file(server, "/demo.js", "text/javascript; charset=utf-8", demo_files::demo_js);
  add_file(server, "/icon.svg", "image/svg+xml", demo_files::icon_svg);
  add_file(server, "/livez", "text/plain; charset=utf-8", "ok\n");
  server.route("GET", "/status.json", [status = std::move(status)](const http::Request&) {
    return http::Response{.content_type = "application/json", .body = status()};
  });
}

}  // namespace waybill
