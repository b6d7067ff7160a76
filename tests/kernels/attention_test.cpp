#include "kernels/attention/attention.h"

#include "kernels/attention/attention_cases.h"
#include "kernels/common/error.h"
#include "kernels/common/parallel.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"
#include "tests/support/complex_step.h"
#include "tests/support/random_vector.h"

using namespace genesis;

namespace {

AttentionProblem problem(const AttentionCase& c, DType dtype) {
  AttentionProblem p(c, dtype);
  p.take_workspaces(cpu::attention_forward_workspace(p.shape), cpu::attention_backward_workspace(p.shape));
  return p;
}

}  // namespace

TEST_CASE("attention: the reference's backward is its forward's derivative") {
  const AttentionShape s = {2, 5, 4, 2, 3, DType::f32, 0.7f};
  const std::vector<int32_t> packed = {0, 1, 0, 1, 2, 0, 0, 1, 2, 3};
  for (const int32_t* positions : {static_cast<const int32_t*>(nullptr), packed.data()}) {
    const auto qkv = random_vector(s.B * s.T * (s.H + 2 * s.KV) * s.K, 0);
    const auto d_out = random_vector(s.B * s.T * s.H * s.K, 1);
    std::vector<double> d_qkv(qkv.size());
    ref::attention_backward(s, qkv.data(), positions, d_out.data(), d_qkv.data());
    const auto loss = [&](const std::vector<ComplexArray>& in) {
      ComplexArray out(d_out.size()), lse(size_t(s.B * s.H * s.T));
      ref::attention_forward(s, in[0].data(), positions, out.data(), lse.data());
      return dot(d_out, out);
    };
    CHECK(gradient_mismatch({{"qkv", qkv, d_qkv}}, loss) == "");
  }
}

TEST_CASE("attention: the CPU version agrees with the reference") {
  for (const auto& c : kAttentionCases) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      INFO(c.name << ", " << name_of(dtype));
      const AttentionProblem p = problem(c, dtype);
      cpu::attention_forward(p.forward());
      for (const auto& r : attention_forward_results(p)) CHECK(mismatch(r) == "");
      cpu::attention_backward(p.backward());
      for (const auto& r : attention_backward_results(p).results) CHECK(mismatch(r) == "");
      CHECK(p.forward_workspace.guard_intact());
      CHECK(p.backward_workspace.guard_intact());
      CHECK(p.d_qkv.guard_intact());
    }
  }
}

TEST_CASE("attention: the same bits again, and with any number of threads") {
  const int threads = thread_count();
  std::vector<double> out, d_qkv;
  for (const int n : {1, 2, 5}) {
    set_thread_count(n);
    const AttentionProblem p = problem({"threads", 2, 200, 4, 2, 32, 60}, DType::bf16);
    for (int run = 0; run < 2; ++run) {
      cpu::attention_forward(p.forward());
      cpu::attention_backward(p.backward());
      if (out.empty()) out = p.out.to_double(), d_qkv = p.d_qkv.to_double();
      INFO(n << " threads, run " << run);
      CHECK(p.out.to_double() == out);
      CHECK(p.d_qkv.to_double() == d_qkv);
    }
  }
  set_thread_count(threads);
}

namespace {

// Steps of `n` tokens of a problem's only sequence.
std::vector<std::vector<AttentionCache::Token>> equal_steps(int64_t T, int64_t n) {
  std::vector<std::vector<AttentionCache::Token>> steps;
  for (int64_t t = 0; t < T; ++t) {
    if (t % n == 0) steps.emplace_back();
    steps.back().push_back({0, t});
  }
  return steps;
}

std::vector<double> run_cached(AttentionProblem p,
                               const std::vector<std::vector<AttentionCache::Token>>& steps, int64_t most) {
  const AttentionCache cache(p, most);
  for (const auto& step : steps) {
    cpu::attention_cached(cache.step(step));
    CHECK(cache.collect(step));
  }
  CHECK(mismatch(attention_forward_results(p)[0]) == "");
  CHECK(cache.holds_all());
  return p.out.to_double();
}

}  // namespace

TEST_CASE(
    "attention: tokens appended to a cache, one by one or many at a time, give the whole sequence's rows") {
  const AttentionCase c = {"cached", 1, 150, 6, 2, 72};
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const int64_t n : {int64_t(1), int64_t(64), c.T}) {
      INFO(name_of(dtype) << ", " << n << " at a time");
      run_cached(problem(c, dtype), equal_steps(c.T, n), n);
    }
  }
}

TEST_CASE(
    "attention: sequences of unequal length share the steps of a cache, each with the bits it has alone") {
  const AttentionCase c = {"unequal", 5, 70, 4, 2, 40};
  for (const DType dtype : {DType::f32, DType::bf16}) {
    INFO(name_of(dtype));
    AttentionProblem p = problem(c, dtype);
    const auto steps = AttentionCache(p, 0).unequal_steps(11, 3);
    const std::vector<double> together = run_cached(problem(c, dtype), steps, 11);
    std::vector<std::vector<AttentionCache::Token>> alone;
    for (int64_t b = 0; b < c.B; ++b) {
      for (int64_t t = 0; t < c.T; ++t) alone.push_back({{b, t}});
    }
    CHECK(run_cached(problem(c, dtype), alone, 1) == together);
  }
}

TEST_CASE("attention: a cache refuses a token of no slot of its own and one past its rows") {
  AttentionProblem p = problem({"full", 1, 2, 1, 1, 8}, DType::f32);
  const AttentionCache cache(p, 1);
  const std::vector<AttentionCache::Token> one = {{0, 0}};
  const AttentionCached step = cache.step(one);
  cache.positions.as<int32_t>()[0] = int32_t(cache.T_max);
  CHECK_THROWS_AS(cpu::attention_cached(step), genesis::Error);
  cache.step(one);
  cache.slot.as<int32_t>()[0] = int32_t(cache.slots);
  CHECK_THROWS_AS(cpu::attention_cached(step), genesis::Error);
}
