#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace waybill {

// A number that only grows. Adding is one atomic instruction: no lock, no memory. Thread-safe.
class Counter {
 public:
  void add(std::uint64_t more = 1) noexcept { value_.fetch_add(more, std::memory_order_relaxed); }
  std::uint64_t value() const noexcept { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

// How often something took how long. Observing takes neither lock nor memory. Thread-safe; whoever reads while others
// observe may miss the last of them, but never sees a number shrink.
class Histogram {
 public:
  // From a local hand-over to an outage of a quarter of an hour.
  static constexpr std::array<std::chrono::microseconds, 16> bounds{
      std::chrono::milliseconds(1),   std::chrono::microseconds(2'500), std::chrono::milliseconds(5),
      std::chrono::milliseconds(10),  std::chrono::milliseconds(25),    std::chrono::milliseconds(50),
      std::chrono::milliseconds(100), std::chrono::milliseconds(250),   std::chrono::milliseconds(500),
      std::chrono::seconds(1),        std::chrono::milliseconds(2'500), std::chrono::seconds(5),
      std::chrono::seconds(10),       std::chrono::seconds(60),         std::chrono::seconds(300),
      std::chrono::seconds(900)};

  // Less than nothing counts as nothing: it is two clocks that disagree.
  void observe(std::chrono::microseconds took) noexcept;

  // How many took at most bounds[i] and longer than the bound before; the last: longer than all bounds.
  std::array<std::uint64_t, bounds.size() + 1> counts() const noexcept;
  std::chrono::microseconds sum() const noexcept;

 private:
  std::array<Counter, bounds.size() + 1> counts_;
  Counter sum_;
};

// Writes numbers as Prometheus reads them: the text format, version 0.0.4. Not thread-safe.
class Exposition {
 public:
  static constexpr std::string_view content_type = "text/plain; version=0.0.4; charset=utf-8";
  using Labels = std::span<const std::pair<std::string_view, std::string_view>>;
  enum class Type { counter, gauge, histogram };

  // Begins a family; what follows belongs to it. REQUIRES: no family of this name yet.
  void family(std::string_view name, Type type, std::string_view help);

  void sample(Labels labels, std::uint64_t value);
  void sample(Labels labels, std::int64_t value);
  void sample(Labels labels, double value);

  struct Bucket {
    double upto = 0;  // seconds
    std::uint64_t count = 0;
  };
  // `buckets` each for itself, with growing bounds; `count` is of all, also of what lies beyond the last bound.
  void histogram(Labels labels, std::span<const Bucket> buckets, std::uint64_t count, double sum);

  std::string take() { return std::move(text_); }

 private:
  void line(std::string_view suffix, Labels labels, std::string_view upto, std::string_view value);

  std::string name_;
  std::string text_;
};

}  // namespace waybill
