#include "kernels/matmul/matmul.h"

#include <omp.h>

#include "kernels/common/error.h"
#include "kernels/matmul/matmul_cases.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"
#include "tests/support/complex_step.h"
#include "tests/support/random_vector.h"

using namespace genesis;

// y = x W^T with W stored [out, in], as every linear layer of a model.
TEST_CASE("matmul: the reference's products of a linear layer are each other's derivatives") {
  const int64_t tokens = 3, in = 4, out = 5;
  const auto x = random_vector(tokens * in, 0), weight = random_vector(out * in, 1);
  const auto dy = random_vector(tokens * out, 2);
  std::vector<double> dx(x), d_weight(weight.size(), 0.0);
  ref::matmul({.M = tokens, .N = in, .K = out}, dy.data(), weight.data(), dx.data());
  ref::matmul({.M = out, .N = in, .K = tokens, .transpose_a = true, .accumulate = true}, dy.data(), x.data(),
              d_weight.data());
  const auto loss = [&](const std::vector<ComplexArray>& inputs) {
    ComplexArray y(tokens * out);
    ref::matmul({.M = tokens, .N = out, .K = in, .transpose_b = true}, inputs[0].data(), inputs[1].data(),
                y.data());
    return dot(dy, y);
  };
  CHECK(gradient_mismatch({{"x", x, dx}, {"weight", weight, d_weight}}, loss) == "");
}

// Also run with oneDNN held to AVX2, where there is no bf16 hardware: see CMakeLists.txt.
TEST_CASE("matmul: the CPU version agrees with the reference") {
  for (const auto& c : kMatMulCases) {
    for (const DType in : {DType::f32, DType::bf16}) {
      for (const DType out : {DType::f32, DType::bf16}) {
        if (!MatMulProblem::takes(c, in, out)) continue;
        INFO(c.name << ", " << name_of(in) << " to " << name_of(out));
        const MatMulProblem p(c, in, out);
        const Result expected = matmul_result(p);
        const cpu::MatMul product(p.shape);
        product(p.a.data(), p.b.data(), p.c.data());
        CHECK(mismatch(expected) == "");
      }
    }
  }
}

TEST_CASE("matmul: a prepared product gives the same bits again, and with any number of threads") {
  const int threads = omp_get_max_threads();
  for (const DType in : {DType::f32, DType::bf16}) {
    // Few outputs and a long sum: what a library shares out over its threads if it is let.
    const MatMulCase c = {"weight gradient", 64, 64, 4096, true, false};
    const MatMulProblem p(c, in, DType::f32);
    std::vector<double> first;
    for (const int n : {1, 2, 7}) {
      omp_set_num_threads(n);
      const cpu::MatMul product(p.shape);
      for (int run = 0; run < 2; ++run) {
        p.c.as<float>()[0] = 1.f;
        product(p.a.data(), p.b.data(), p.c.data());
        const auto found = p.c.to_double();
        if (first.empty()) first = found;
        INFO(name_of(in) << ", " << n << " threads, run " << run);
        CHECK(found == first);
      }
    }
  }
  omp_set_num_threads(threads);
}

TEST_CASE("matmul: what it cannot compute is refused") {
  const auto prepare = [](MatMulShape s) { return cpu::MatMul(s); };
  CHECK_THROWS_AS(prepare({.M = 0, .N = 1, .K = 1}), Error);
  CHECK_THROWS_AS(prepare({.M = 1, .N = 1, .K = 1, .b = DType::f32}), Error);
  CHECK_THROWS_AS(prepare({.M = 1, .N = 1, .K = 1, .accumulate = true}), Error);
  CHECK_THROWS_AS(prepare({.M = 1, .N = 1, .K = 1, .a = DType::f32, .b = DType::f32}), Error);
  CHECK_THROWS_AS(prepare({.M = 1, .N = 1, .K = 1, .transpose_a = true}), Error);
}
