#include "sink/file/file_sink.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstring>
#include <filesystem>
#include <optional>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "model/event_json.h"

namespace waybill {
namespace {

// The standard output belongs to the process: one sink at a time writes to it, and says when it leaves an unfinished
// line.
std::atomic<const void*> stdout_writer = nullptr;
std::atomic<bool> stdout_broken_line = false;

class FileSink final : public Sink {
 public:
  FileSink(FileSinkOptions options, int fd) : options_(std::move(options)), fd_(fd) {}
  ~FileSink() override { close({}); }

  void submit(const EventView& event, std::uint64_t ticket) override {
    append_event_json(buffer_, event);
    buffer_ += '\n';
    taken_.push_back(ticket);
  }

  void collect(std::vector<Outcome>& outcomes, Steady deadline) override {
    if (taken_.empty()) return;
    const auto trouble = write_out(deadline);
    if (!trouble) return;
    const auto kind = trouble->empty() ? Outcome::Kind::delivered : Outcome::Kind::unavailable;
    for (const std::uint64_t ticket : taken_) outcomes.push_back({ticket, kind, *trouble});
    forget();
  }

  Outcome probe(Steady /*deadline*/) override {
    const std::string trouble = open_file();
    return {0, trouble.empty() ? Outcome::Kind::delivered : Outcome::Kind::unavailable, trouble};
  }

  void close(Steady /*deadline*/) override {
    forget();
    if (is_stdout()) release_stdout();
    close_file();
  }

 private:
  bool is_stdout() const { return options_.path.empty(); }

  // Returns the error; empty if there is none.
  std::string claim_stdout() {
    const void* writer = nullptr;
    if (stdout_writer.compare_exchange_strong(writer, this)) {
      broken_line_ = stdout_broken_line;
      return ::fstat(fd_, &status_) == 0 ? std::string() : give_up("look at");
    }
    return writer == this ? std::string() : "cannot write to the standard output: another writer has it";
  }
  void release_stdout() {
    if (stdout_writer != this) return;
    stdout_broken_line = broken_line_;
    stdout_writer = nullptr;
  }

  // The sink neither opens nor closes the standard output.
  void close_file() {
    if (is_stdout() || fd_ < 0) return;
    ::close(fd_);
    fd_ = -1;
  }

  // Drops the batch. A pipe that has taken part of it may end inside a line.
  void forget() {
    if (written_ < buffer_.size())
      broken_line_ = written_ > 0 ? buffer_[written_ - 1] != '\n' : broken_line_ || buffer_.front() == '\n';
    written_ = 0;
    buffer_.clear();
    taken_.clear();
  }

  // Returns the error; empty if there is none.
  std::string open_file() {
    if (is_stdout()) return claim_stdout();
    if (fd_ >= 0 && moved_away()) close_file();
    if (fd_ >= 0) return {};
    // Read as well as written, to look back. A pipe is only written: it is an outage (ENXIO) while nobody reads it.
    struct stat there {};
    const bool exists = ::stat(options_.path.c_str(), &there) == 0;
    const int access = exists && !S_ISREG(there.st_mode) ? O_WRONLY : O_RDWR | O_CREAT;
    fd_ = ::open(options_.path.c_str(), access | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0640);
    if (fd_ < 0 || ::fstat(fd_, &status_) != 0) return give_up("open");
    if (S_ISFIFO(status_.st_mode)) {
      if (::flock(fd_, LOCK_EX | LOCK_NB) != 0) return give_up("write alone to the pipe");
      broken_line_ = true;  // The writer before may have died inside a line.
    }
    if (!options_.fsync || sync_folder()) return {};
    return give_up("sync the folder of");
  }

  // Rotated or removed: the path is no longer the file that is open.
  bool moved_away() const {
    struct stat there {};
    return ::stat(options_.path.c_str(), &there) != 0 || there.st_ino != status_.st_ino ||
           there.st_dev != status_.st_dev;
  }

  // A new file is on disk only when its name is.
  bool sync_folder() const {
    const auto folder = std::filesystem::path(options_.path).parent_path();
    const int fd = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return false;
    const bool good = ::fsync(fd) == 0;
    const int error = errno;
    ::close(fd);
    errno = error;
    return good;
  }

  // Returns the error, empty if all is written; none if a pipe has not taken all of it by `deadline`.
  std::optional<std::string> write_out(Steady deadline) {
    if (written_ == 0) {
      if (auto failed = open_file(); !failed.empty()) return failed;
      if (!is_file() && std::exchange(broken_line_, false)) buffer_.insert(buffer_.begin(), '\n');
    }
    while (written_ < buffer_.size()) {
      const ssize_t count = write_some(buffer_.data() + written_, buffer_.size() - written_);
      if (count >= 0) {
        if (!count_written(static_cast<std::size_t>(count))) return give_up("read back");
      } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
        if (!wait_until_writable(deadline)) return std::nullopt;
      } else if (errno != EINTR) {
        return give_up("write to");
      }
    }
    if (options_.fsync && ::fdatasync(fd_) != 0) return give_up("sync");
    return std::string();
  }

  // As write(), and never blocks: EAGAIN if it would. What we open does not; the standard output may be shared with
  // others, who do not expect it to change, so that it is written in pieces for which there is room.
  ssize_t write_some(const char* data, std::size_t size) const {
    if (!is_stdout() || S_ISREG(status_.st_mode)) return ::write(fd_, data, size);
    const std::size_t piece = std::min<std::size_t>(size, PIPE_BUF);
    if (S_ISSOCK(status_.st_mode)) return ::send(fd_, data, piece, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (wait_until_writable({})) return ::write(fd_, data, piece);
    errno = EAGAIN;
    return -1;
  }

  // Several processes may append, so that a line continues only within one write. After a short write, the line it
  // broke is written again from its beginning. If the byte before the write is no line end, another writer died inside
  // a line and our first line stuck to it: it is written again, behind the others. (They are of other keys.)
  bool count_written(std::size_t count) {
    if (!is_file()) {
      written_ += count;
      return true;
    }
    const auto whole = buffer_.rfind('\n', written_ + count - 1);
    const std::size_t end = whole == std::string::npos || whole < written_ ? written_ : whole + 1;
    const auto began_a_line = begins_a_line(count);
    if (!began_a_line) return false;
    if (!*began_a_line && end > written_)
      buffer_.append(buffer_, written_, buffer_.find('\n', written_) + 1 - written_);
    written_ = end;
    return true;
  }

  // Of the last write, which is where O_APPEND has left the file's position. None: that cannot be read.
  std::optional<bool> begins_a_line(std::size_t count) const {
    const off_t began = ::lseek(fd_, 0, SEEK_CUR) - static_cast<off_t>(count);
    if (began < 0) return std::nullopt;
    if (began == 0) return true;
    char before = 0;
    const ssize_t read = ::pread(fd_, &before, 1, began - 1);
    if (read < 0) return std::nullopt;
    return read == 1 && before == '\n';
  }

  bool wait_until_writable(Steady deadline) const {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - system_clock().steady());
    pollfd waiting{.fd = fd_, .events = POLLOUT, .revents = 0};
    return ::poll(&waiting, 1, static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 60'000))) > 0;
  }

  bool is_file() const { return !is_stdout() && S_ISREG(status_.st_mode); }

  std::string give_up(std::string_view verb) {
    std::string failed = fmt::format("cannot {} {}: {}", verb, is_stdout() ? "the standard output" : options_.path,
                                     std::strerror(errno));
    close_file();
    return failed;
  }

  const FileSinkOptions options_;
  int fd_;
  struct stat status_ {};     // of the open file
  bool broken_line_ = false;  // A pipe, or the standard output, ends inside a line.
  std::string buffer_;        // the batch: whole lines
  std::size_t written_ = 0;   // of the buffer
  std::vector<std::uint64_t> taken_;
};

}  // namespace

std::unique_ptr<Sink> file_sink(FileSinkOptions options) {
  return std::make_unique<FileSink>(std::move(options), -1);
}

std::unique_ptr<Sink> stdout_sink() {
  return std::make_unique<FileSink>(FileSinkOptions{}, STDOUT_FILENO);
}

}  // namespace waybill
