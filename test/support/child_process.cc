#include "support/child_process.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include <arpa/inet.h>
#include <fcntl.h>
#include <grp.h>
#include <netinet/in.h>
#include <pwd.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace waybill {
namespace {

// In the child, before it becomes the program.
void become(const std::string& user) {
  if (user.empty() || ::getuid() != 0) return;
  const passwd* entry = ::getpwnam(user.c_str());
  if (!entry || ::setgid(entry->pw_gid) != 0 || ::initgroups(user.c_str(), entry->pw_gid) != 0 ||
      ::setuid(entry->pw_uid) != 0)
    ::_exit(126);
}

pid_t spawn(const std::vector<std::string>& command, const std::string& log_path, const std::string& user) {
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  const int log = ::open(log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0666);
  ::dup2(log, STDOUT_FILENO);
  ::dup2(log, STDERR_FILENO);
  become(user);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // after the change of user, which would clear it
  std::vector<char*> arguments;
  for (const std::string& part : command) arguments.push_back(const_cast<char*>(part.c_str()));
  arguments.push_back(nullptr);
  ::execvp(arguments[0], arguments.data());
  ::_exit(127);
}

}  // namespace

ChildProcess::ChildProcess(const std::vector<std::string>& command, const std::string& log_path,
                           const std::string& user)
    : pid_(spawn(command, log_path, user)) {}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept : pid_(other.pid_), status_(other.status_) {
  other.pid_ = -1;
}

ChildProcess::~ChildProcess() {
  if (pid_ < 0 || !running()) return;
  signal(SIGKILL);
  wait();
}

void ChildProcess::signal(int number) const {
  ::kill(pid_, number);
}

bool ChildProcess::running() {
  if (status_ >= 0) return false;
  int status = 0;
  if (::waitpid(pid_, &status, WNOHANG) == 0) return true;
  status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return false;
}

int ChildProcess::wait() {
  if (status_ >= 0) return status_;
  int status = 0;
  ::waitpid(pid_, &status, 0);
  status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return status_;
}

void run_command(const std::vector<std::string>& command, const std::string& user) {
  const TmpFolder folder;
  const std::string log = folder.path() + "/log";
  if (ChildProcess(command, log, user).wait() == 0) return;
  std::ifstream file(log);
  std::stringstream text;
  text << file.rdbuf();
  throw std::runtime_error(command[0] + " failed: " + text.str());
}

int free_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* generic = static_cast<sockaddr*>(static_cast<void*>(&address));
  if (::bind(fd, generic, size) != 0 || ::getsockname(fd, generic, &size) != 0)
    throw std::runtime_error("no free port");
  ::close(fd);
  return ntohs(address.sin_port);
}

TmpFolder::TmpFolder(const std::string& owner) {
  std::string name = (std::filesystem::temp_directory_path() / "waybill-XXXXXX").string();
  if (!::mkdtemp(name.data())) throw std::runtime_error("no temporary folder");
  path_ = name;
  ::chmod(path_.c_str(), 0755);
  const passwd* entry = owner.empty() || ::getuid() != 0 ? nullptr : ::getpwnam(owner.c_str());
  if (entry && ::chown(path_.c_str(), entry->pw_uid, entry->pw_gid) != 0) throw std::runtime_error("cannot chown");
}

TmpFolder::~TmpFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace waybill
