#include "kernels/qk_norm/qk_norm.h"

#include "kernels/common/error.h"
#include "kernels/common/parallel.h"
#include "kernels/qk_norm/qk_norm_cases.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"
#include "tests/support/complex_step.h"
#include "tests/support/random_vector.h"

using namespace genesis;

TEST_CASE("qk_norm: the reference's backward pass is its derivative") {
  const std::vector<int32_t> positions = {0, 3, 1000};
  for (const bool interleaved : {false, true}) {
    const QkNormShape s{.rows = 3, .H = 2, .KV = 1, .K = 6, .interleaved = interleaved, .eps = 0.1f};
    const int64_t n = s.rows * s.row();
    const auto qkv = random_vector(n, 0), q = random_vector(s.K, 1), k = random_vector(s.K, 2);
    const auto d_rotated = random_vector(n, 3);
    auto d_qkv = d_rotated;
    std::vector<double> dq(size_t(s.K), 0.), dk = dq;
    ref::qk_norm_backward(s, positions.data(), qkv.data(), q.data(), k.data(), d_qkv.data(), dq.data(),
                          dk.data());
    const auto loss = [&](const std::vector<ComplexArray>& in) {
      ComplexArray rotated(in[0].size());
      ref::qk_norm_forward(s, positions.data(), in[0].data(), in[1].data(), in[2].data(), rotated.data());
      return dot(d_rotated, rotated);
    };
    CHECK(gradient_mismatch({{"qkv", qkv, d_qkv}, {"q_weight", q, dq}, {"k_weight", k, dk}}, loss) == "");
  }
}

// Hugging Face's Qwen3 (transformers 4.51, Qwen3RMSNorm): weight * (x * rsqrt(mean(x^2) + eps)) over a head, before
// the rotation, which leaves position 0 as it is.
TEST_CASE("qk_norm: at position 0 heads are normalised by the weight of their kind, and values are copied") {
  const QkNormShape s{.rows = 1, .H = 1, .KV = 1, .K = 2, .eps = 0.5f};
  const int32_t position = 0;
  const std::vector<double> qkv = {3, 4, 1, -1, 5, 6}, q = {1, 2}, k = {-3, 0.5};
  std::vector<double> out(6);
  ref::qk_norm_forward(s, &position, qkv.data(), q.data(), k.data(), out.data());
  const double of_query = 1 / std::sqrt(12.5 + 0.5), of_key = 1 / std::sqrt(1 + 0.5);
  const std::vector<double> expected = {3 * of_query, 8 * of_query, -3 * of_key, -0.5 * of_key, 5, 6};
  for (size_t i = 0; i < 6; ++i) CHECK(std::abs(out[i] - expected[i]) < 1e-15);
}

TEST_CASE("qk_norm: the CPU version agrees with the reference, with the same bits on any number of threads") {
  for (const auto& c : kQkNormCases) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      INFO(c.name << ", " << name_of(dtype));
      std::vector<double> bits[2];
      const int threads = thread_count();
      for (const int number : {1, 3}) {
        const QkNormProblem p(c, dtype, cpu::qk_norm_backward_workspace(c.rows, c.K));
        set_thread_count(number);
        cpu::qk_norm_forward(p.forward());
        CHECK(mismatch(qk_norm_forward_result(p)) == "");
        const auto expected = qk_norm_backward_results(p);
        const auto before = p.d_qkv.to_double();
        cpu::qk_norm_backward(p.backward());
        set_thread_count(threads);
        for (const Result& r : expected) CHECK(mismatch(r) == "");
        for (int64_t i = 0; i < c.rows * p.shape().row(); ++i) {
          if (i % p.shape().row() < (c.H + c.KV) * c.K) continue;
          REQUIRE(p.d_qkv.get(i) == before[size_t(i)]);
          REQUIRE(p.rotated.get(i) == p.qkv.get(i));
        }
        auto& all = bits[number > 1];
        for (const Buffer* b : {&p.rotated, &p.d_qkv, &p.d_q_weight, &p.d_k_weight}) {
          const auto values = b->to_double();
          all.insert(all.end(), values.begin(), values.end());
        }
      }
      CHECK(bits[0] == bits[1]);
    }
  }
}

TEST_CASE("qk_norm: an odd head and one that is too large are refused") {
  for (const int64_t K : {7, 258}) {
    CHECK_THROWS_AS(cpu::qk_norm_forward({.shape = {.rows = 1, .H = 1, .KV = 1, .K = K}}), Error);
    CHECK_THROWS_AS(cpu::qk_norm_backward({.shape = {.rows = 1, .H = 1, .KV = 1, .K = K}}), Error);
  }
}
