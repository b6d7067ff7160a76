#include "kernels/attention/attention.h"

#include "kernels/attention/attention_cases.h"
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

TEST_CASE(
    "attention: tokens appended to a cache, one by one or many at a time, give the whole sequence's rows") {
  const AttentionCase c = {"cached", 1, 150, 6, 2, 72};
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const int64_t step : {int64_t(1), int64_t(64), c.T}) {
      INFO(name_of(dtype) << ", " << step << " at a time");
      const AttentionProblem p = problem(c, dtype);
      const AttentionCache cache(p);
      for (int64_t t = 0; t < c.T; t += step) cpu::attention_cached(cache.step(t, std::min(step, c.T - t)));
      const auto whole = attention_forward_results(p);
      CHECK(mismatch(whole[0]) == "");
      CHECK(cache.holds_all());
    }
  }
}
