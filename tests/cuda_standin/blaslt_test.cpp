// The stand-in of cuBLASLt against products computed by hand: it is what a wrong descriptor of ours would be found
// with, so it must be right by itself.
#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <cmath>
#include <vector>

#include "kernels/common/bf16.h"
#include "tests/cuda_standin/standin.h"
#include "tests/support/catch.h"

using namespace genesis;

namespace {

template <class T>
T* on_device(const std::vector<T>& values) {
  void* p = nullptr;
  REQUIRE(cudaMalloc(&p, values.size() * sizeof(T)) == cudaSuccess);
  REQUIRE(cudaMemcpyAsync(p, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice,
                          cudaStreamPerThread) == cudaSuccess);
  REQUIRE(cudaStreamSynchronize(cudaStreamPerThread) == cudaSuccess);
  return static_cast<T*>(p);
}

template <class T>
std::vector<T> from_device(const T* p, size_t count) {
  std::vector<T> values(count);
  REQUIRE(cudaMemcpyAsync(values.data(), p, count * sizeof(T), cudaMemcpyDeviceToHost, cudaStreamPerThread) ==
          cudaSuccess);
  REQUIRE(cudaStreamSynchronize(cudaStreamPerThread) == cudaSuccess);
  return values;
}

struct Matrix {
  uint64_t rows = 0, columns = 0;
  int64_t ld = 0;
  cudaDataType type = CUDA_R_32F;
  cublasLtOrder_t order = CUBLASLT_ORDER_COL;
};

cublasLtMatrixLayout_t layout(const Matrix& m) {
  cublasLtMatrixLayout_t l = nullptr;
  REQUIRE(cublasLtMatrixLayoutCreate(&l, m.type, m.rows, m.columns, m.ld) == CUBLAS_STATUS_SUCCESS);
  REQUIRE(cublasLtMatrixLayoutSetAttribute(l, CUBLASLT_MATRIX_LAYOUT_ORDER, &m.order, sizeof m.order) ==
          CUBLAS_STATUS_SUCCESS);
  return l;
}

// One product, with its descriptors.
struct Product {
  Matrix a, b, d;
  bool transpose_a = false, transpose_b = false;
  float alpha = 1, beta = 0;
  uint64_t workspace = 0;  // bytes that the heuristics may count on
  uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_MASK;
  uint32_t alignment = 4;
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;

  cublasStatus_t heuristics(cublasLtMatmulHeuristicResult_t* results, int most, int* count) const {
    const Descriptors d_(*this);
    return cublasLtMatmulAlgoGetHeuristic(d_.handle, d_.operation, d_.a, d_.b, d_.d, d_.d, d_.preference,
                                          most, results, count);
  }

  cublasStatus_t run(const void* a_, const void* b_, void* out, void* scratch = nullptr,
                     size_t scratch_bytes = 0, const cublasLtMatmulAlgo_t* algorithm = nullptr) const {
    const Descriptors d_(*this);
    return cublasLtMatmul(d_.handle, d_.operation, &alpha, a_, d_.a, b_, d_.b, &beta, out, d_.d, out, d_.d,
                          algorithm, scratch, scratch_bytes, cudaStreamPerThread);
  }

 private:
  struct Descriptors {
    explicit Descriptors(const Product& p) : a(layout(p.a)), b(layout(p.b)), d(layout(p.d)) {
      cublasLtCreate(&handle);
      cublasLtMatmulDescCreate(&operation, p.compute, CUDA_R_32F);
      const int32_t ta = p.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N,
                    tb = p.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
      cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_TRANSA, &ta, sizeof ta);
      cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_TRANSB, &tb, sizeof tb);
      cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_EPILOGUE, &p.epilogue,
                                     sizeof p.epilogue);
      cublasLtMatmulPreferenceCreate(&preference);
      const auto set = [&](cublasLtMatmulPreferenceAttributes_t what, auto value) {
        cublasLtMatmulPreferenceSetAttribute(preference, what, &value, sizeof value);
      };
      set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, p.workspace);
      set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, p.reductions);
      for (const auto what :
           {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
            CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
        set(what, p.alignment);
      }
    }
    ~Descriptors() {
      for (const auto l : {a, b, d}) cublasLtMatrixLayoutDestroy(l);
      cublasLtMatmulDescDestroy(operation);
      cublasLtMatmulPreferenceDestroy(preference);
      cublasLtDestroy(handle);
    }
    Descriptors(const Descriptors&) = delete;
    Descriptors& operator=(const Descriptors&) = delete;

    cublasLtMatrixLayout_t a, b, d;
    cublasLtHandle_t handle = nullptr;
    cublasLtMatmulDesc_t operation = nullptr;
    cublasLtMatmulPreference_t preference = nullptr;
  };
};

using Floats = std::vector<float>;

// A = | 1 2 3 |   B = |  7 10 |   A B = | 50  68 |
//     | 4 5 6 |       |  8 11 |         | 122 167 |
//                     |  9 12 |
const Product kByColumns{.a = {2, 3, 2}, .b = {3, 2, 3}, .d = {2, 2, 2}};
const Floats kA{1, 4, 2, 5, 3, 6}, kB{7, 8, 9, 10, 11, 12}, kAB{50, 122, 68, 167};

}  // namespace

TEST_CASE("cuBLASLt stand-in: a product by columns") {
  standin::reset();
  float* d = on_device(Floats(4));
  REQUIRE(kByColumns.run(on_device(kA), on_device(kB), d) == CUBLAS_STATUS_SUCCESS);
  CHECK(from_device(d, 4) == kAB);
  CHECK(standin::seen().products == 1);
}

TEST_CASE("cuBLASLt stand-in: the same numbers as rows, or transposed, are the same product") {
  standin::reset();
  const Floats a_rows{1, 2, 3, 4, 5, 6}, b_rows{7, 10, 8, 11, 9, 12};
  float* d = on_device(Floats(4));
  Product rows{.a = {2, 3, 3, CUDA_R_32F, CUBLASLT_ORDER_ROW},
               .b = {3, 2, 2, CUDA_R_32F, CUBLASLT_ORDER_ROW},
               .d = {2, 2, 2, CUDA_R_32F, CUBLASLT_ORDER_ROW}};
  REQUIRE(rows.run(on_device(a_rows), on_device(b_rows), d) == CUBLAS_STATUS_SUCCESS);
  CHECK(from_device(d, 4) == Floats{50, 68, 122, 167});
  // By columns, a_rows is A^T [3, 2] and b_rows is B^T [2, 3].
  Product transposed{
      .a = {3, 2, 3}, .b = {2, 3, 2}, .d = {2, 2, 2}, .transpose_a = true, .transpose_b = true};
  REQUIRE(transposed.run(on_device(a_rows), on_device(b_rows), d) == CUBLAS_STATUS_SUCCESS);
  CHECK(from_device(d, 4) == kAB);
}

TEST_CASE("cuBLASLt stand-in: alpha, beta, and what lies between columns is left alone") {
  standin::reset();
  Product p = kByColumns;
  p.alpha = 2;
  p.beta = 10;
  p.d.ld = 3;
  float* d = on_device(Floats{1, 2, -5, 3, 4, -6});
  REQUIRE(p.run(on_device(kA), on_device(kB), d) == CUBLAS_STATUS_SUCCESS);
  CHECK(from_device(d, 6) == Floats{110, 264, -5, 166, 374, -6});
}

TEST_CASE("cuBLASLt stand-in: with beta 0 what C held does not matter") {
  standin::reset();
  float* d = on_device(Floats(4, NAN));
  REQUIRE(kByColumns.run(on_device(kA), on_device(kB), d) == CUBLAS_STATUS_SUCCESS);
  CHECK(from_device(d, 4) == kAB);
}

TEST_CASE("cuBLASLt stand-in: bf16 operands are summed as fp32 and rounded once") {
  standin::reset();
  // 256 + 1 is no bf16; 256 + 1 + 1 is.
  const std::vector<bf16> a{bf16(256.f), bf16(1.f), bf16(1.f)}, ones(3, bf16(1.f));
  Product p{
      .a = {1, 3, 1, CUDA_R_16BF}, .b = {3, 1, 3, CUDA_R_16BF}, .d = {1, 1, 1, CUDA_R_16BF}, .alignment = 2};
  auto* narrow = on_device(std::vector<bf16>(1));
  REQUIRE(p.run(on_device(a), on_device(ones), narrow) == CUBLAS_STATUS_SUCCESS);
  CHECK(float(from_device(narrow, 1)[0]) == 258.f);
  p.d.type = CUDA_R_32F;
  float* wide = on_device(Floats(1));
  REQUIRE(p.run(on_device(a), on_device(ones), wide) == CUBLAS_STATUS_SUCCESS);
  CHECK(from_device(wide, 1)[0] == 258.f);
}

TEST_CASE("cuBLASLt stand-in: a wrong leading dimension is refused, or gives other numbers") {
  standin::reset();
  float* d = on_device(Floats(4));
  Product p = kByColumns;
  p.a.ld = 1;
  CHECK(p.run(on_device(kA), on_device(kB), d) == CUBLAS_STATUS_INVALID_VALUE);
  p.a.ld = 3;  // reads past the end of A
  REQUIRE(p.run(on_device(kA), on_device(kB), d) == CUBLAS_STATUS_SUCCESS);
  CHECK(cudaStreamSynchronize(cudaStreamPerThread) == cudaErrorIllegalAddress);
  standin::reset();
  p.a.ld = 3;
  d = on_device(Floats(4));
  REQUIRE(p.run(on_device(Floats{1, 4, 2, 5, 3, 6, 0, 0}), on_device(kB), d) == CUBLAS_STATUS_SUCCESS);
  CHECK(from_device(d, 4) != kAB);
}

TEST_CASE("cuBLASLt stand-in: what the manual forbids is refused") {
  standin::reset();
  const float *a = on_device(kA), *b = on_device(kB);
  float* d = on_device(Floats(4));
  const auto status = [&](auto change) {
    Product p = kByColumns;
    change(p);
    return p.run(a, b, d);
  };
  CHECK(status([](Product& p) { p.b.rows = 2; }) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(status([](Product& p) { p.d.columns = 3; }) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(status([](Product& p) { p.transpose_a = true; }) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(status([](Product& p) { p.b.type = CUDA_R_16BF; }) == CUBLAS_STATUS_NOT_SUPPORTED);
  CHECK(status([](Product& p) { p.d.type = CUDA_R_16BF; }) == CUBLAS_STATUS_NOT_SUPPORTED);
  CHECK(status([](Product& p) { p.compute = CUBLAS_COMPUTE_16F; }) == CUBLAS_STATUS_NOT_SUPPORTED);
  CHECK(status([](Product& p) { p.epilogue = CUBLASLT_EPILOGUE_GELU; }) == CUBLAS_STATUS_NOT_SUPPORTED);
  CHECK(kByColumns.run(nullptr, b, d) == CUBLAS_STATUS_INVALID_VALUE);
}

TEST_CASE(
    "cuBLASLt stand-in: algorithms ask for their workspace and alignment, and sum in ways of their own") {
  standin::reset();
  constexpr uint64_t kTerms = 400;
  Floats terms(kTerms);
  for (size_t i = 0; i < terms.size(); ++i) terms[i] = 1 / float(i + 1);
  Product p{
      .a = {1, kTerms, 1}, .b = {kTerms, 1, kTerms}, .d = {1, 1, 1}, .workspace = 1024, .alignment = 16};
  cublasLtMatmulHeuristicResult_t results[8];
  int count = 0;
  REQUIRE(p.heuristics(results, 8, &count) == CUBLAS_STATUS_SUCCESS);
  REQUIRE(count == 3);
  CHECK(results[0].workspaceSize == 8);
  const float *a = on_device(terms), *b = on_device(Floats(kTerms, 1.f));
  float* d = on_device(Floats(1));
  char* scratch = on_device(std::vector<char>(1024));
  CHECK(p.run(a, b, d, scratch, 4, &results[0].algo) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(p.run(a, b, d, scratch + 128, 8, &results[0].algo) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(p.run(a + 1, b, d, scratch, 8, &results[0].algo) == CUBLAS_STATUS_NOT_SUPPORTED);
  std::vector<float> sums;
  for (int i = 0; i < count; ++i) {
    REQUIRE(p.run(a, b, d, scratch, 1024, &results[i].algo) == CUBLAS_STATUS_SUCCESS);
    sums.push_back(from_device(d, 1)[0]);
    CHECK(std::abs(sums.back() - 6.5699296911765055) < 1e-5);  // the harmonic number H(400)
  }
  CHECK((sums[0] != sums[1] && sums[1] != sums[2]));
  p.workspace = 0;  // nothing to split a sum with
  REQUIRE(p.heuristics(results, 8, &count) == CUBLAS_STATUS_SUCCESS);
  CHECK(count == 2);
}

TEST_CASE("cuBLASLt stand-in: partial sums are rounded to bf16 unless that is ruled out") {
  standin::reset();
  std::vector<bf16> a(8, bf16(0.f)), ones(8, bf16(1.f));
  a[0] = bf16(256.f), a[1] = bf16(1.f), a[4] = bf16(1.f);  // 256 + 1 in the first half, 1 in the other
  Product p{.a = {1, 8, 1, CUDA_R_16BF},
            .b = {8, 1, 8, CUDA_R_16BF},
            .d = {1, 1, 1, CUDA_R_16BF},
            .workspace = 1024};
  bf16* d = on_device(std::vector<bf16>(1));
  void* scratch = on_device(std::vector<char>(1024));
  const auto product = [&] {
    cublasLtMatmulHeuristicResult_t first;
    int count = 0;
    REQUIRE(p.heuristics(&first, 1, &count) == CUBLAS_STATUS_SUCCESS);
    REQUIRE(p.run(on_device(a), on_device(ones), d, scratch, 1024, &first.algo) == CUBLAS_STATUS_SUCCESS);
    return float(from_device(d, 1)[0]);
  };
  CHECK(product() == 256.f);
  p.reductions = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  CHECK(product() == 258.f);
}
