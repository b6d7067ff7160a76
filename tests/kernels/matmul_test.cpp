#include "kernels/matmul/matmul.h"

#include "kernels/common/error.h"
#include "kernels/common/parallel.h"
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

// These are also run with oneDNN held to AVX2, where there is no bf16 hardware: see CMakeLists.txt.
TEST_CASE("matmul: the CPU version agrees with the reference") {
  for (const auto& c : kMatMulCases) {
    for (const DType in : {DType::f32, DType::bf16}) {
      for (const DType out : {DType::f32, DType::bf16}) {
        if (!MatMulProblem::takes(c, in, out)) continue;
        INFO(c.name << ", " << name_of(in) << " to " << name_of(out));
        const MatMulProblem p(c, in, out);
        const Result expected = matmul_result(p);
        const cpu::MatMul product(p.shape);
        product(p.a.data(), p.b.data(), p.c.data(), p.workspace.data());
        CHECK(mismatch(expected) == "");
      }
    }
  }
}

// What a library shares out over its threads, if it is let: long sums of few outputs, and large products.
constexpr MatMulCase kThreadsCases[] = {
    {"few outputs, a long sum", 64, 64, 4096, false, true},
    {"few outputs, a long sum, A transposed", 64, 64, 4096, true, false},
    {"large", 520, 700, 1100, false, true},
    {"large, accumulated", 700, 520, 1100, true, false, true},
};

TEST_CASE("matmul: a prepared product gives the same bits again, and with any number of threads") {
  const int threads = thread_count();
  const auto check_case = [](const MatMulCase& c) {
    for (const DType in : {DType::f32, DType::bf16}) {
      MatMulProblem p(c, in, DType::f32);
      Buffer before(DType::f32, c.M * c.N);
      before.copy_from(p.c);
      std::vector<double> first;
      for (const int n : {1, 2, 3, 7}) {
        set_thread_count(n);
        const cpu::MatMul product(p.shape);
        p.workspace = workspace_buffer(cpu::matmul_workspace(p.shape), kHostMemory);
        for (int run = 0; run < 2; ++run) {
          p.c.copy_from(before);
          product(p.a.data(), p.b.data(), p.c.data(), p.workspace.data());
          CHECK((p.workspace.size() == 0 || p.workspace.guard_intact()));
          const auto found = p.c.to_double();
          if (first.empty()) first = found;
          INFO(c.name << ", " << name_of(in) << ", " << n << " threads, run " << run);
          CHECK(found == first);
          CHECK(thread_count() == n);
        }
      }
    }
  };
  for (const MatMulCase& c : kMatMulCases) check_case(c);
  for (const MatMulCase& c : kThreadsCases) check_case(c);
  set_thread_count(threads);
}

TEST_CASE("matmul: a product that was prepared with few threads runs with more, and the reverse") {
  const int threads = thread_count();
  MatMulProblem p({"large", 520, 700, 300, false, true}, DType::f32, DType::f32);
  std::vector<double> first;
  for (const auto& [prepared, run] : {std::pair(1, 4), std::pair(4, 1)}) {
    set_thread_count(prepared);
    const cpu::MatMul product(p.shape);
    p.workspace = workspace_buffer(cpu::matmul_workspace(p.shape), kHostMemory);
    set_thread_count(run);
    product(p.a.data(), p.b.data(), p.c.data(), p.workspace.data());
    CHECK((p.workspace.size() == 0 || p.workspace.guard_intact()));
    const auto found = p.c.to_double();
    if (first.empty()) first = found;
    CHECK(found == first);
  }
  set_thread_count(threads);
}

TEST_CASE("matmul: what it cannot compute is refused") {
  const auto prepare = [](MatMulShape s) { return cpu::MatMul(s); };
  CHECK_THROWS_AS(prepare({.M = 0, .N = 1, .K = 1}), Error);
  CHECK_THROWS_AS(prepare({.M = 1, .N = 1, .K = 1, .b = DType::f32}), Error);
  CHECK_THROWS_AS(prepare({.M = 1, .N = 1, .K = 1, .accumulate = true}), Error);
  CHECK_THROWS_AS(prepare({.M = 1, .N = 1, .K = 1, .a = DType::f32, .b = DType::f32}), Error);
  CHECK_THROWS_AS(prepare({.M = 1, .N = 1, .K = 1, .transpose_a = true}), Error);
  CHECK_THROWS_AS(prepare({.M = 1, .N = 2, .K = 1, .symmetric = true}), Error);
  CHECK_THROWS_AS(prepare({.M = 1, .N = 1, .K = 1, .c = DType::f32, .accumulate = true, .symmetric = true}),
                  Error);
}
