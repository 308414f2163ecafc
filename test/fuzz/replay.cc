// replay FOLDER [MILLISECONDS]: runs every file of a corpus, and then simple mutations of them for so long. For builds
// without libFuzzer: the same targets, and no other compiler. The mutations are the same each time.
#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <random>
#include <vector>

#include <unistd.h>

#include "fuzz/input.h"

namespace {

std::vector<std::string> read_corpus(const std::string& folder) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> corpus;
  for (const auto& path : paths) {
    std::ifstream file(path, std::ios::binary);
    corpus.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return corpus;
}

const std::string* running = nullptr;

// Shows the input that did it, in hexadecimal, and dies of the same signal.
void show_input(int signal) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::signal(signal, SIG_DFL);
  for (const char c : *running) {
    const auto byte = static_cast<unsigned char>(c);
    const std::array pair{digits[byte >> 4U], digits[byte & 0xFU]};
    if (::write(STDERR_FILENO, pair.data(), pair.size()) < 0) break;
  }
  std::raise(signal);
}

void run(const std::string& input) {
  running = &input;
  // A copy of exactly its size: what is read beyond its end is seen by sanitizers.
  const std::vector<std::uint8_t> bytes(input.begin(), input.end());
  LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
}

class Mutator {
 public:
  explicit Mutator(const std::vector<std::string>& corpus) : corpus_(corpus) {}

  std::string next() {
    std::string text = corpus_[below(corpus_.size())];
    for (std::size_t i = below(4) + 1; i > 0; --i) mutate(text);
    return text;
  }

 private:
  std::size_t below(std::size_t end) { return std::uniform_int_distribution<std::size_t>(0, end - 1)(random_); }

  void mutate(std::string& text) {
    const std::size_t at = below(text.size() + 1);
    switch (below(6)) {
      case 0:
        if (at < text.size()) text[at] = static_cast<char>(below(256));
        return;
      case 1:
        if (at < text.size()) text[at] = static_cast<char>(text[at] ^ (1 << below(8)));
        return;
      case 2:
        text.insert(at, below(3) + 1, static_cast<char>(below(256)));
        return;
      case 3:
        text.erase(at, below(8));
        return;
      case 4:
        text.insert(at, text.substr(below(text.size() + 1), below(64)));
        return;
      default: {
        const std::string& other = corpus_[below(corpus_.size())];
        text = text.substr(0, at) + other.substr(below(other.size() + 1));
      }
    }
  }

  const std::vector<std::string>& corpus_;
  std::mt19937_64 random_{7};
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const auto corpus = read_corpus(argv[1]);
  if (corpus.empty()) {
    std::cerr << argv[1] << ": there is nothing in it\n";
    return 1;
  }
  for (const int signal : {SIGILL, SIGSEGV, SIGABRT, SIGFPE, SIGTRAP}) std::signal(signal, show_input);
  for (const auto& input : corpus) run(input);
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(argc > 2 ? std::atoi(argv[2]) : 0);
  std::size_t count = 0;
  for (Mutator mutator(corpus); std::chrono::steady_clock::now() < end; ++count) run(mutator.next());
  std::cout << corpus.size() << " files, " << count << " mutations\n";
  return 0;
}
