#include "kernels/attention/attention.h"

#include "kernels/attention/attention_cases.h"
#include "kernels/common/error.h"
#include "kernels/simt/device.h"
#include "kernels/simt/session.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"

using namespace genesis;

namespace {

AttentionProblem problem(const AttentionCase& c, DType dtype) {
  AttentionProblem p(c, dtype, simt::kDeviceMemory);
  p.take_workspaces(cuda::attention_forward_workspace(p.shape), cuda::attention_backward_workspace(p.shape),
                    simt::kDeviceMemory);
  return p;
}

void run(const AttentionProblem& p) {
  cuda::attention_forward(p.forward(), {});
  cuda::attention_backward(p.backward(), {});
  simt::finish();
}

void check_results(const AttentionProblem& p) {
  for (const auto& r : attention_forward_results(p)) CHECK(mismatch(r) == "");
  for (const auto& r : attention_backward_results(p).results) CHECK(mismatch(r) == "");
}

// The case agrees with the reference, and has the same bits in every order.
void check_case(const AttentionCase& c, DType dtype, const simt::SessionOptions& options = {}) {
  INFO(c.name << ", " << name_of(dtype));
  std::vector<double> out, d_qkv;
  simt::in_all_orders(
      [&](simt::Session&) {
        const AttentionProblem p = problem(c, dtype);
        run(p);
        if (out.empty()) {
          check_results(p);
          out = p.out.to_double();
          d_qkv = p.d_qkv.to_double();
        }
        CHECK(p.out.to_double() == out);
        CHECK(p.d_qkv.to_double() == d_qkv);
      },
      options);
}

// The plain kernels share no memory between threads: nothing to race for.
constexpr simt::SessionOptions kPlain = {.check_races = false, .count = false};

}  // namespace

TEST_CASE("attention: the CUDA kernels agree with the reference, in every order of threads") {
  for (const auto& c :
       {AttentionCase{"one token", 2, 1, 2, 1, 8}, AttentionCase{"a tile and one", 1, 65, 2, 1, 64},
        AttentionCase{"a group of 3", 1, 130, 3, 1, 128}, AttentionCase{"odd head", 1, 97, 2, 2, 72},
        AttentionCase{"documents", 1, 200, 2, 1, 32, 40, 4.0}}) {
    check_case(c, DType::bf16);
  }
}

TEST_CASE("attention: the plain CUDA kernels agree with the reference, in every order of threads") {
  check_case({"one token", 2, 1, 2, 1, 8}, DType::f32, kPlain);
  check_case({"a group of 3", 1, 40, 3, 1, 24}, DType::f32, kPlain);
  check_case({"documents", 1, 70, 2, 1, 64, 20, 4.0}, DType::f32, kPlain);
  check_case({"largest head", 1, 40, 2, 1, 256}, DType::bf16, kPlain);
}

TEST_CASE("attention: all cases on the CUDA kernels", "[long][.]") {
  for (const auto& c : kAttentionCases) {
    check_case(c, DType::bf16);
    check_case(c, DType::f32, kPlain);
  }
}

namespace {

using Steps = std::vector<std::vector<AttentionCache::Token>>;

// Sequences that are appended to a cache, some tokens at a time, have the rows that they have as a whole.
std::vector<double> check_cached(const AttentionCase& c, DType dtype, const Steps& steps) {
  INFO(c.name << ", " << name_of(dtype));
  size_t most = 0;
  for (const auto& step : steps) most = std::max(most, step.size());
  std::vector<double> out;
  simt::in_all_orders([&](simt::Session&) {
    AttentionProblem p = problem(c, dtype);
    const AttentionCache cache(p, int64_t(most), simt::kDeviceMemory);
    for (const auto& step : steps) {
      cuda::attention_cached(cache.step(step), {});
      simt::finish();
      CHECK(cache.collect(step));
    }
    if (out.empty()) {
      CHECK(mismatch(attention_forward_results(p)[0]) == "");
      CHECK(cache.holds_all());
      out = p.out.to_double();
    }
    CHECK(p.out.to_double() == out);
  });
  return out;
}

Steps equal_steps(const AttentionCase& c, int64_t n) {
  Steps steps;
  for (int64_t b = 0; b < c.B; ++b) {
    for (int64_t t = 0; t < c.T; ++t) {
      if (t % n == 0) steps.emplace_back();
      steps.back().push_back({b, t});
    }
  }
  return steps;
}

}  // namespace

TEST_CASE("attention: tokens appended to a cache on CUDA give the whole sequence's rows") {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const auto check = [&](const AttentionCase& c, int64_t n) { check_cached(c, dtype, equal_steps(c, n)); };
    check({"one by one", 1, 12, 4, 2, 72}, 1);
    check({"many at a time", 1, 100, 4, 2, 72}, 64);
    check({"more keys than a block's warps take at once", 1, 260, 1, 1, 8}, 260);
    check({"largest head", 1, 20, 2, 1, 256}, 20);
  }
}

TEST_CASE(
    "attention: sequences of unequal length share a cache's steps on CUDA, each with the bits it has alone") {
  const AttentionCase c = {"unequal", 3, 13, 4, 2, 40};
  for (const DType dtype : {DType::f32, DType::bf16}) {
    AttentionProblem p = problem(c, dtype);
    const Steps steps = AttentionCache(p, 0).unequal_steps(7, 3);
    CHECK(check_cached(c, dtype, steps) == check_cached(c, dtype, equal_steps(c, 1)));
  }
}

TEST_CASE("attention: CUDA blocks share the query heads of a key head, evenly or not") {
  simt::Session session({.check_races = false, .count = false});
  const AttentionProblem p = problem({"3 heads for 2 blocks", 384, 2, 3, 1, 8}, DType::bf16);
  run(p);
  check_results(p);
}

// The kernel of dk and dv looks for a key's queries among 32 tiles at a time. Here the last two queries,
// which are in the 33rd, see all keys and attend to the fourth alone: without them its gradient is another.
TEST_CASE("attention: a CUDA sequence of more than 32 tiles") {
  const int64_t T = 2050, K = 8;
  for (const int64_t document : {0, 300}) {
    INFO("documents of " << document);
    simt::Session session({.check_races = false, .count = false});
    AttentionProblem p = problem({"33 tiles", 1, T, 1, 1, K, document}, DType::bf16);
    for (int64_t i = 0; i < K; ++i) {
      p.qkv.set(3 * 3 * K + K + i, 4);
      for (int64_t t = T - 2; t < T; ++t) p.qkv.set(t * 3 * K + i, 4);
    }
    for (int64_t t = T - 2; t < T && document; ++t) p.positions.as<int32_t>()[t] = int32_t(t);
    run(p);
    check_results(p);
  }
}

TEST_CASE("attention: the CUDA kernels take any first key a row, not only those of documents") {
  simt::Session session;
  const AttentionProblem p = problem({"any positions", 1, 200, 2, 1, 16, 1}, DType::bf16);
  for (int64_t t = 0; t < p.c.T; ++t) {
    p.positions.as<int32_t>()[t] =
        int32_t(random_bits(3, 0, uint64_t(t)) % uint32_t(t + 1)) / (t % 3 ? 8 : 1);
  }
  run(p);
  check_results(p);
}

TEST_CASE(
    "attention: refused on CUDA: heads that are not a multiple, head sizes not of 8 or over 256, scale 0") {
  const AttentionShape good = {1, 1, 2, 1, 64, DType::bf16, 1.f};
  for (const auto& spoil :
       {+[](AttentionShape& s) { s.KV = 3; }, +[](AttentionShape& s) { s.K = 60; },
        +[](AttentionShape& s) { s.K = 264; }, +[](AttentionShape& s) { s.scale = 0.f; }}) {
    AttentionShape s = good;
    spoil(s);
    CHECK_THROWS_AS(cuda::attention_forward({.shape = s}, {}), Error);
    CHECK_THROWS_AS(cuda::attention_backward({.shape = s}, {}), Error);
    CHECK_THROWS_AS(
        cuda::attention_cached({.n = 1, .T_max = 1, .H = s.H, .KV = s.KV, .K = s.K, .scale = s.scale}, {}),
        Error);
  }
}
