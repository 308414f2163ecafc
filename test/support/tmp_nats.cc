#include "support/tmp_nats.h"

#include <chrono>
#include <fstream>
#include <functional>
#include <sstream>
#include <stdexcept>
#include <thread>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

namespace waybill {
namespace {

using namespace std::chrono_literals;

// The server speaks first.
bool greets(std::uint16_t port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  char first = 0;
  const bool good =
      ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 && ::recv(fd, &first, 1, 0) == 1;
  ::close(fd);
  return good && first == 'I';
}

bool comes_true(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + 30s;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(5ms);
  }
  return true;
}

}  // namespace

TmpNats::TmpNats() : TmpNats(Options{}) {}

TmpNats::TmpNats(Options options) : options_(std::move(options)), port_(static_cast<std::uint16_t>(free_port())) {
  start();
}

TmpNats::~TmpNats() {
  if (server_) kill();
}

std::string TmpNats::url() const {
  return "nats://127.0.0.1:" + std::to_string(port_);
}

void TmpNats::write_config() const {
  std::ofstream file(folder_.path() + "/nats.conf");
  file << "listen: 127.0.0.1:" << port_ << "\n";
  if (options_.jetstream) file << "jetstream { store_dir: \"" << folder_.path() << "/store\" }\n";
  if (options_.tls) {
    const auto pair = options_.certificate.value_or(options_.tls->server());
    file << "tls {\n  cert_file: " << pair.certificate << "\n  key_file: " << pair.key
         << "\n  ca_file: " << options_.tls->ca()
         << "\n  verify: " << (options_.asks_for_certificates ? "true" : "false") << "\n}\n";
  }
  file << options_.extra_config << "\n";
}

std::string TmpNats::log() const {
  std::ifstream file(folder_.path() + "/log");
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

void TmpNats::start() {
  write_config();
  server_ = std::make_unique<ChildProcess>(std::vector<std::string>{"nats-server", "-c", folder_.path() + "/nats.conf"},
                                           folder_.path() + "/log");
  if (!comes_true([this] { return greets(port_) || !server_->running(); }) || !server_->running())
    throw std::runtime_error("nats-server did not start: " + log());
}

void TmpNats::stop() {
  server_->signal(SIGTERM);
  server_->wait();
  server_.reset();
}

void TmpNats::restart() {
  stop();
  start();
}

void TmpNats::kill() {
  server_->signal(SIGKILL);
  server_->wait();
  server_.reset();
}

void TmpNats::reload(const std::string& extra_config) {
  const auto reloads = [this] {
    std::size_t count = 0;
    const std::string text = log();
    for (auto at = text.find("Reloaded server configuration"); at != std::string::npos;
         at = text.find("Reloaded", at + 1))
      ++count;
    return count;
  };
  const auto before = reloads();
  options_.extra_config = extra_config;
  write_config();
  server_->signal(SIGHUP);
  if (!comes_true([&] { return reloads() > before; })) throw std::runtime_error("nats-server did not reload: " + log());
}

void TmpNats::begin_lame_duck_mode() {
  server_->signal(SIGUSR2);
}

}  // namespace waybill
