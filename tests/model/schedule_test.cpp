#include "optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "tests/support/catch.h"

using namespace genesis;

namespace {

using Kind = Config::ScheduleKind;

constexpr double kLr = 3e-4, kMin = 1e-5;

Config::Schedule schedule(Kind kind, int64_t warmup, int64_t decay = 0) {
  return {.kind = kind, .warmup_steps = warmup, .min_lr = kMin, .decay_steps = decay};
}

std::vector<double> run(const Config::Schedule& s, int64_t steps) {
  std::vector<double> lr;
  for (int64_t step = 0; step < steps; ++step) lr.push_back(learning_rate(s, kLr, steps, step));
  return lr;
}

}  // namespace

TEST_CASE("schedule: the warm-up rises from lr / n to lr in equal steps") {
  for (const Kind kind : {Kind::cosine, Kind::wsd, Kind::constant}) {
    const auto lr = run(schedule(kind, 10, 5), 100);
    for (size_t i = 0; i < 10; ++i) CHECK(lr[i] == Approx(kLr * double(i + 1) / 10).epsilon(1e-14));
    CHECK(lr[9] == kLr);
    CHECK(lr[10] == kLr);
  }
}

TEST_CASE("schedule: cosine falls from lr to the floor, which the last step has") {
  for (const int64_t steps : {12, 101, 1000, 80000}) {
    for (const int64_t warmup : {0, 1, 10}) {
      const auto lr = run(schedule(Kind::cosine, warmup), steps);
      CHECK(lr[size_t(warmup)] == kLr);
      CHECK(lr.back() == kMin);
      for (size_t i = size_t(warmup) + 1; i < lr.size(); ++i) REQUIRE(lr[i] < lr[i - 1]);
    }
  }
  // Half way it is half way down.
  CHECK(run(schedule(Kind::cosine, 10), 111)[60] == Approx((kLr + kMin) / 2));
}

TEST_CASE("schedule: wsd holds lr and then falls in equal steps") {
  const auto lr = run(schedule(Kind::wsd, 10, 20), 100);
  for (size_t i = 9; i <= 80; ++i) CHECK(lr[i] == kLr);
  for (size_t i = 81; i < 100; ++i) CHECK(lr[i - 1] - lr[i] == Approx((kLr - kMin) / 19));
  CHECK(lr.back() == kMin);
  // The decay may take everything that the warm-up leaves.
  const auto all = run(schedule(Kind::wsd, 10, 90), 100);
  CHECK(all[10] == kLr);
  CHECK(all[11] < kLr);
  CHECK(all.back() == kMin);
}

TEST_CASE("schedule: constant stays at lr") {
  for (const double lr : run(schedule(Kind::constant, 0), 50)) CHECK(lr == kLr);
}

TEST_CASE("schedule: runs and decays of one step") {
  CHECK(run(schedule(Kind::cosine, 0), 1) == std::vector<double>{kMin});
  CHECK(run(schedule(Kind::constant, 0), 1) == std::vector<double>{kLr});
  CHECK(run(schedule(Kind::wsd, 0, 1), 1) == std::vector<double>{kMin});
  CHECK(run(schedule(Kind::wsd, 0, 1), 3) == std::vector<double>{kLr, kLr, kMin});
  CHECK(run(schedule(Kind::cosine, 2), 3) == std::vector<double>{kLr / 2, kLr, kMin});
  CHECK(run(schedule(Kind::cosine, 0), 2) == std::vector<double>{kLr, kMin});
}

TEST_CASE("schedule: a floor at lr is constant") {
  Config::Schedule s = schedule(Kind::cosine, 0);
  s.min_lr = kLr;
  for (const double lr : run(s, 20)) CHECK(lr == kLr);
}

TEST_CASE(
    "schedule: no step is taken at a rate of 0; a floor of 0 would be reached by the step after the last") {
  for (const Kind kind : {Kind::cosine, Kind::wsd, Kind::constant}) {
    for (const int64_t steps : {1, 2, 3, 12, 1000, 80000}) {
      for (const int64_t warmup : {int64_t(0), std::min<int64_t>(steps - 1, 10)}) {
        for (const int64_t decay : {int64_t(1), steps - warmup}) {
          Config::Schedule s = schedule(kind, warmup, decay);
          s.min_lr = 0;
          const auto lr = run(s, steps);
          for (const double rate : lr) REQUIRE(rate > 0);
          for (size_t i = size_t(warmup) + 1; i < lr.size(); ++i) REQUIRE(lr[i] <= lr[i - 1]);
          if (kind != Kind::constant) CHECK(learning_rate(s, kLr, steps, steps) == 0);
        }
      }
    }
  }
  Config::Schedule s = schedule(Kind::cosine, 0);
  s.min_lr = 0;
  CHECK(run(s, 1) == std::vector<double>{kLr});
  CHECK(run(s, 2) == std::vector<double>{kLr, 0.5 * (1 + std::cos(std::numbers::pi / 2)) * kLr});
  CHECK(run(s, 100)[50] == Approx(kLr / 2));
}
