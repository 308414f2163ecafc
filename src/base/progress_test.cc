#include "waybill/progress.h"

#include <array>
#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

namespace waybill {
namespace {

TEST(Progress, IsATextWithABar) {
  EXPECT_EQ("[..............................] 0/1,204", progress_text(0, 1'204));
  EXPECT_EQ("[###############...............] 602/1,204", progress_text(602, 1'204));
  EXPECT_EQ("[##############################] 1,300/1,300", progress_text(1'300, 1'204)) << "it was an estimate";
  EXPECT_EQ("1,234,567 …", progress_text(1'234'567, 0));
}

// The standard error output is a terminal while it lives; then what it was.
class OnATerminal {
 public:
  OnATerminal() : before_(::dup(STDERR_FILENO)), main_(::posix_openpt(O_RDWR | O_NOCTTY)) {
    ::grantpt(main_);
    ::unlockpt(main_);
    const int side = ::open(::ptsname(main_), O_RDWR | O_NOCTTY);
    ::dup2(side, STDERR_FILENO);
    ::close(side);
  }
  ~OnATerminal() {
    ::dup2(before_, STDERR_FILENO);
    ::close(before_);
    ::close(main_);
  }
  OnATerminal(const OnATerminal&) = delete;
  OnATerminal& operator=(const OnATerminal&) = delete;

  // What comes up to the end of a drawing, which may arrive in pieces.
  std::string seen(std::string_view end = "\x1b[K\r") const {
    std::string text;
    std::array<char, 4096> buffer{};
    while (!text.ends_with(end)) {
      const auto size = ::read(main_, buffer.data(), buffer.size());
      if (size <= 0) break;
      text.append(buffer.data(), static_cast<std::size_t>(size));
    }
    return text;
  }

 private:
  const int before_;
  const int main_;
};

TEST(ProgressBar, IsDrawnOnATerminalAndTakenAwayAgain) {
  const OnATerminal terminal;
  {
    ProgressBar bar;
    bar.show(1, 2);
    EXPECT_NE(std::string::npos, terminal.seen().find("[###############...............] 1/2"));
    bar.show(2, 2);
    EXPECT_NE(std::string::npos, terminal.seen().find("] 2/2")) << "the end is always drawn";
  }
  EXPECT_EQ("\r\x1b[K", terminal.seen("\x1b[K"));
}

}  // namespace
}  // namespace waybill
