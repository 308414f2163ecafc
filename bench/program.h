#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "bench.h"

namespace CLI {
class App;
}

namespace waybill::bench {

struct Bench {
  void (*measure)(Run&) = nullptr;
  std::vector<std::string> figures{};
};

// A program that measures figures.
struct Program {
  std::string name{};
  std::string purpose{};
  std::string output{};  // Where the figures go unless somebody says otherwise.
  std::vector<Bench> benches{};
  std::function<void(CLI::App&, Scale&)> add_flags{};  // Besides those that every such program has.
};

// Where the running program is: its companions are beside it.
std::filesystem::path own_folder();

// Measures what the command line asks for. Returns the exit code: 0 all goals met, 1 some missed, 2 something could not
// be measured.
int run_program(const Program& program, int argc, char** argv);

}  // namespace waybill::bench
