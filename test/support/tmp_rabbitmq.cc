#include "support/tmp_rabbitmq.h"

#include <chrono>
#include <filesystem>
#include <fstream>
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

constexpr const char* user = "rabbitmq";
// Debian's wrapper in /usr/sbin has its own ideas of folders.
constexpr const char* binaries = "/usr/lib/rabbitmq/bin/";

std::uint16_t a_port() {
  return static_cast<std::uint16_t>(free_port());
}

std::string contents(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string tls_settings(const Certificates& certificates, std::uint16_t port) {
  std::ostringstream text;
  text << "listeners.ssl.1 = 127.0.0.1:" << port << "\n"
       << "ssl_options.cacertfile = " << certificates.ca().string() << "\n"
       << "ssl_options.certfile = " << certificates.server().certificate.string() << "\n"
       << "ssl_options.keyfile = " << certificates.server().key.string() << "\n"
       << "ssl_options.verify = verify_peer\nssl_options.fail_if_no_peer_cert = false\n"
       << "ssl_cert_login_from = common_name\n"
       << "auth_mechanisms.1 = PLAIN\nauth_mechanisms.2 = AMQPLAIN\nauth_mechanisms.3 = EXTERNAL\n";
  return text.str();
}

}  // namespace

TmpRabbitmq::TmpRabbitmq(const Options& options)
    : folder_(user),
      port_(a_port()),
      tls_port_(options.tls ? a_port() : 0),
      dist_port_(a_port()),
      epmd_port_(a_port()) {
  if (!std::filesystem::exists(std::string(binaries) + "rabbitmq-server"))
    throw std::runtime_error("RabbitMQ is not installed: apt-get install rabbitmq-server");
  std::ofstream settings(folder_.path() + "/rabbitmq.conf");
  settings << "listeners.tcp.1 = 127.0.0.1:" << port_ << "\n"
           << "log.file = false\nlog.console = true\nlog.console.level = warning\nloopback_users = none\n"
           << "disk_free_limit.absolute = 50MB\n";
  if (options.tls) settings << tls_settings(*options.tls, tls_port_);
  for (const std::string& line : options.settings) settings << line << "\n";
  std::ofstream plugins(folder_.path() + "/enabled_plugins");
  std::string names = options.tls ? "rabbitmq_auth_mechanism_ssl" : "";
  for (const std::string& name : options.plugins) names += (names.empty() ? "" : ",") + name;
  plugins << "[" << names << "].\n";
  settings.close();
  plugins.close();
  // One that the server starts by itself would outlive it.
  epmd_ = std::make_unique<ChildProcess>(
      std::vector<std::string>{"epmd", "-port", std::to_string(epmd_port_), "-address", "127.0.0.1"},
      folder_.path() + "/epmd.log", user);
  start();
}

TmpRabbitmq::~TmpRabbitmq() {
  if (server_) kill();
}

std::vector<std::string> TmpRabbitmq::with_environment(std::vector<std::string> command) const {
  const std::string& folder = folder_.path();
  std::vector<std::string> whole{
      "env", "HOME=" + folder, "RABBITMQ_NODENAME=t" + std::to_string(port_) + "@localhost",
      "RABBITMQ_DIST_PORT=" + std::to_string(dist_port_), "ERL_EPMD_PORT=" + std::to_string(epmd_port_),
      "ERL_EPMD_ADDRESS=127.0.0.1", "RABBITMQ_MNESIA_BASE=" + folder + "/mnesia",
      "RABBITMQ_LOG_BASE=" + folder + "/log", "RABBITMQ_CONFIG_FILE=" + folder + "/rabbitmq.conf",
      "RABBITMQ_ENABLED_PLUGINS_FILE=" + folder + "/enabled_plugins",
      "RABBITMQ_GENERATED_CONFIG_DIR=" + folder + "/gen", "RABBITMQ_PID_FILE=" + folder + "/pid",
      "RABBITMQ_CONF_ENV_FILE=/dev/null", "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=+S 2:2 +sbwt none",
      // The script becomes the server, instead of waiting for it: so it dies with us.
      "RUNNING_UNDER_SYSTEMD=true"};
  whole.insert(whole.end(), command.begin(), command.end());
  return whole;
}

bool TmpRabbitmq::accepts_connections() const {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port_);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const bool good = ::connect(fd, static_cast<sockaddr*>(static_cast<void*>(&address)), sizeof address) == 0;
  ::close(fd);
  return good;
}

void TmpRabbitmq::start() {
  const std::string log = folder_.path() + "/server.log";
  server_ = std::make_unique<ChildProcess>(with_environment({std::string(binaries) + "rabbitmq-server"}), log, user);
  const auto deadline = std::chrono::steady_clock::now() + 120s;
  while (!accepts_connections()) {
    if (!server_->running() || std::chrono::steady_clock::now() > deadline)
      throw std::runtime_error("RabbitMQ did not start: " + contents(log));
    std::this_thread::sleep_for(20ms);
  }
}

void TmpRabbitmq::stop() {
  server_->signal(SIGTERM);
  server_->wait();
  server_.reset();
}

void TmpRabbitmq::kill() {
  server_->signal(SIGKILL);
  server_->wait();
  server_.reset();
}

std::string TmpRabbitmq::control(std::vector<std::string> arguments) const {
  const TmpFolder output;
  std::vector<std::string> command{std::string(binaries) + "rabbitmqctl", "--quiet"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  const int code = ChildProcess(with_environment(command), output.path() + "/log", user).wait();
  std::string text = contents(output.path() + "/log");
  if (code != 0) throw std::runtime_error("rabbitmqctl " + arguments.at(0) + " failed: " + text);
  return text;
}

}  // namespace waybill
