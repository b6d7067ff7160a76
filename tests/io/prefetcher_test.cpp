#include "io/prefetcher.h"

#include <atomic>
#include <stdexcept>

#include "tests/support/catch.h"

using namespace genesis;

TEST_CASE("a prefetcher gives every value in order, then no more") {
  std::thread::id maker;
  Prefetcher<int> prefetcher(3, [&, i = 0]() mutable {
    maker = std::this_thread::get_id();
    return i < 1000 ? std::optional(i++) : std::nullopt;
  });
  for (int i = 0; i < 1000; ++i) REQUIRE(prefetcher.next() == i);
  CHECK(!prefetcher.next());
  CHECK(!prefetcher.next());
  CHECK(maker != std::this_thread::get_id());
}

TEST_CASE("an error in the background reaches the consumer, after the values before it, each time") {
  Prefetcher<int> prefetcher(2, [i = 0]() mutable -> std::optional<int> {
    if (i == 5) throw std::runtime_error("the disk is gone");
    return i++;
  });
  for (int i = 0; i < 5; ++i) REQUIRE(prefetcher.next() == i);
  CHECK_THROWS_WITH(prefetcher.next(), "the disk is gone");
  CHECK_THROWS_WITH(prefetcher.next(), "the disk is gone");
}

TEST_CASE("a prefetcher stays within its depth and ends when nobody takes") {
  std::atomic<int> made = 0;
  {
    Prefetcher<int> prefetcher(4, [&] { return std::optional(made++); });
    REQUIRE(prefetcher.next() == 0);
  }
  CHECK(made <= 1 + 4 + 1);  // taken, ready, and one in hand when the end came
}
