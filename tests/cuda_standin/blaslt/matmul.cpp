// Heuristics and products. cuBLAS documentation, "cublasLtMatmulAlgoGetHeuristic()" and "cublasLtMatmul()".
#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/common/bf16.h"
#include "tests/cuda_standin/blaslt/descriptors.h"
#include "tests/cuda_standin/runtime/runtime.h"

namespace genesis::standin {
namespace {

constexpr uint64_t kMagic = 0x7374616e642d696e;

// What cublasLtMatmulAlgo_t holds: how the sum over k is taken, so that two algorithms give different bits.
struct Algorithm {
  uint64_t magic = kMagic;
  uint32_t parts = 1;            // of the sum, each over a range of k, in the workspace
  uint32_t rounds_parts = 0;     // to the output's type: CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE
  uint32_t block = 0;            // terms that are summed before they are added to the rest; 0: all
  uint32_t alignment[4] = {};    // of A, B, C, D, in bytes
  uint64_t m = 0, n = 0, k = 0;  // that it was found for

  uint64_t workspace() const { return parts > 1 ? parts * m * n * sizeof(float) : 0; }
};
static_assert(sizeof(Algorithm) <= sizeof(cublasLtMatmulAlgo_t));

constexpr uint32_t kVector = 16;  // bytes that a fast algorithm loads at once

// Candidates, the fastest first: with partial sums where they are allowed and there is room for them.
std::vector<Algorithm> algorithms(const Problem& p, const Preference& preference) {
  Algorithm plain;
  plain.m = p.m();
  plain.n = p.n();
  plain.k = p.k();
  for (int i = 0; i < 4; ++i) plain.alignment[i] = std::min(preference.alignment[i], kVector);
  std::vector<Algorithm> found;
  const auto split = [&](uint32_t scheme, bool rounds) {
    Algorithm a = plain;
    a.parts = 2;
    a.rounds_parts = rounds;
    if (preference.reductions & scheme && a.k >= 8 && a.workspace() <= preference.workspace)
      found.push_back(a);
  };
  if (p.d.type == CUDA_R_16BF) split(CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE, true);
  split(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, false);
  for (const uint32_t block : {0u, 32u}) {
    found.push_back(plain);
    found.back().block = block;
  }
  return found;
}

float load(const unsigned char* p, cudaDataType type) {
  if (type == CUDA_R_16BF) {
    bf16 x;
    std::memcpy(&x, p, sizeof x);
    return float(x);
  }
  float x;
  std::memcpy(&x, p, sizeof x);
  return x;
}

void store(unsigned char* p, cudaDataType type, float value) {
  if (type == CUDA_R_16BF) {
    const bf16 x(value);
    std::memcpy(p, &x, sizeof x);
  } else {
    std::memcpy(p, &value, sizeof value);
  }
}

// A matrix in device memory, element by element as its layout says.
class Matrix {
 public:
  Matrix(const void* p, const Layout& layout, const char* name) : layout_(layout) {
    const uint64_t outer = layout.order == CUBLASLT_ORDER_COL ? layout.columns : layout.rows;
    const uint64_t inner = layout.order == CUBLASLT_ORDER_COL ? layout.rows : layout.columns;
    const uint64_t elements = (outer - 1) * uint64_t(layout.ld) + inner;
    data_ = Runtime::get().device_bytes(p, elements * element_bytes(layout.type), name);
  }
  float get(uint64_t row, uint64_t column) const { return load(at(row, column), layout_.type); }
  void set(uint64_t row, uint64_t column, float value) const { store(at(row, column), layout_.type, value); }

 private:
  unsigned char* at(uint64_t row, uint64_t column) const {
    const uint64_t ld = uint64_t(layout_.ld);
    const uint64_t i = layout_.order == CUBLASLT_ORDER_COL ? column * ld + row : row * ld + column;
    return data_ + i * element_bytes(layout_.type);
  }

  Layout layout_;
  unsigned char* data_;
};

// op(X) as fp32, [rows, columns] row by row.
std::vector<float> gather(const Matrix& x, bool transposed, uint64_t rows, uint64_t columns) {
  std::vector<float> values(rows * columns);
  for (uint64_t r = 0; r < rows; ++r) {
    for (uint64_t c = 0; c < columns; ++c) values[r * columns + c] = transposed ? x.get(c, r) : x.get(r, c);
  }
  return values;
}

struct Call {
  Problem problem;
  Algorithm algorithm;
  const void *a, *b, *c;
  void *d, *workspace;
  const void *alpha_at, *beta_at;  // in device memory, or null
  float alpha, beta;
};

// sum[j] += a[k] b[k, j] over the range, in blocks.
void add_products(std::vector<float>& sum, const float* a, const std::vector<float>& b, uint64_t from,
                  uint64_t to, uint64_t block) {
  const uint64_t n = sum.size(), step = block == 0 ? std::max<uint64_t>(to - from, 1) : block;
  std::vector<float> part(n);
  for (uint64_t first = from; first < to; first += step) {
    std::fill(part.begin(), part.end(), 0.f);
    for (uint64_t k = first; k < std::min(to, first + step); ++k) {
      for (uint64_t j = 0; j < n; ++j) part[j] += a[k] * b[k * n + j];
    }
    for (uint64_t j = 0; j < n; ++j) sum[j] += part[j];
  }
}

void multiply(const Call& call) {
  const Problem& p = call.problem;
  const Algorithm& how = call.algorithm;
  const uint64_t m = p.m(), n = p.n(), k = p.k();
  Runtime& runtime = Runtime::get();
  const auto scale = [&](const void* at, float value) {
    return at ? load(runtime.device_bytes(at, sizeof(float), "a scale"), CUDA_R_32F) : value;
  };
  const float alpha = scale(call.alpha_at, call.alpha), beta = scale(call.beta_at, call.beta);
  const auto a = gather(Matrix(call.a, p.a, "A"), p.operation.transpose_a != CUBLAS_OP_N, m, k);
  const auto b = gather(Matrix(call.b, p.b, "B"), p.operation.transpose_b != CUBLAS_OP_N, k, n);
  const Matrix d(call.d, p.d, "D");
  unsigned char* partial =
      how.workspace() ? runtime.device_bytes(call.workspace, how.workspace(), "the workspace") : nullptr;
  const auto partial_at = [&](uint64_t part, uint64_t i, uint64_t j) {
    return partial + ((part * m + i) * n + j) * sizeof(float);
  };
  for (uint64_t part = 0; part < how.parts && partial; ++part) {
    for (uint64_t i = 0; i < m; ++i) {
      std::vector<float> sum(n);
      add_products(sum, &a[i * k], b, k * part / how.parts, k * (part + 1) / how.parts, how.block);
      for (uint64_t j = 0; j < n; ++j) {
        store(partial_at(part, i, j), CUDA_R_32F, how.rounds_parts ? float(bf16(sum[j])) : sum[j]);
      }
    }
  }
  for (uint64_t i = 0; i < m; ++i) {
    std::vector<float> sum(n);
    if (!partial) add_products(sum, &a[i * k], b, 0, k, how.block);
    for (uint64_t part = 0; part < how.parts && partial; ++part) {
      for (uint64_t j = 0; j < n; ++j) sum[j] += load(partial_at(part, i, j), CUDA_R_32F);
    }
    for (uint64_t j = 0; j < n; ++j) {
      // "If beta is zero, C does not have to be a valid input."
      const float old = beta == 0 ? 0 : beta * Matrix(call.c, p.c, "C").get(i, j);
      d.set(i, j, alpha * sum[j] + old);
    }
  }
  ++runtime.seen.products;
}

bool is_aligned(const void* p, size_t bytes) { return reinterpret_cast<uintptr_t>(p) % bytes == 0; }

// The pointers and the algorithm of a product whose descriptors agree.
cublasStatus_t check_call(const Call& call, size_t workspace_bytes) {
  const Problem& p = call.problem;
  const Algorithm& how = call.algorithm;
  if (how.magic != kMagic || how.m != p.m() || how.n != p.n() || how.k != p.k())
    return CUBLAS_STATUS_INVALID_VALUE;
  if (call.c == call.d && !(p.c == p.d)) return CUBLAS_STATUS_INVALID_VALUE;
  if (how.workspace() > 0) {
    const bool there = call.workspace && workspace_bytes >= how.workspace();
    // "Must be 256B aligned (i.e. lowest 8 bits of address must be 0)."
    if (!there || !is_aligned(call.workspace, 256)) return CUBLAS_STATUS_INVALID_VALUE;
  }
  const void* pointers[] = {call.a, call.b, call.c, call.d};
  for (int i = 0; i < 4; ++i) {
    if (!is_aligned(pointers[i], how.alignment[i])) return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t start(const Call& call_, size_t workspace_bytes, cudaStream_t stream) {
  if (const cublasStatus_t s = check_call(call_, workspace_bytes); s != CUBLAS_STATUS_SUCCESS) return s;
  const cudaError_t e = call([&](Runtime& r) {
    void* p = nullptr;
    if (r.makes(Mistake::allocating_product) && r.allocate(&p, 4) != cudaSuccess) return cudaErrorUnknown;
    return r.enqueue(stream, "cublasLtMatmul", [call_] { multiply(call_); });
  });
  return e == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

}  // namespace
}  // namespace genesis::standin

using namespace genesis::standin;

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  if (!handle) return CUBLAS_STATUS_INVALID_VALUE;
  *handle = reinterpret_cast<cublasLtHandle_t>(new char);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete reinterpret_cast<char*>(handle);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int most,
                                              cublasLtMatmulHeuristicResult_t* results, int* count) {
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (!operation || !a || !b || !c || !d || !preference || most <= 0 || !results || !count) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  *count = 0;
  const Problem problem{of(operation), of(a), of(b), of(c), of(d)};
  if (const cublasStatus_t s = check_problem(problem); s != CUBLAS_STATUS_SUCCESS) return s;
  for (const Algorithm& algorithm : algorithms(problem, of(preference))) {
    if (*count == most) break;
    cublasLtMatmulHeuristicResult_t& result = results[(*count)++] = {};
    std::memcpy(&result.algo, &algorithm, sizeof algorithm);
    result.workspaceSize = algorithm.workspace();
    result.state = CUBLAS_STATUS_SUCCESS;
    result.wavesCount = 1;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                              cublasLtMatrixLayout_t c_layout, void* d, cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* algorithm, void* workspace, size_t workspace_bytes,
                              cudaStream_t stream) {
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  for (const void* p : {alpha, a, b, beta, c, static_cast<const void*>(d)}) {
    if (!p) return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (!operation || !a_layout || !b_layout || !c_layout || !d_layout) return CUBLAS_STATUS_INVALID_VALUE;
  const Problem problem{of(operation), of(a_layout), of(b_layout), of(c_layout), of(d_layout)};
  if (const cublasStatus_t s = check_problem(problem); s != CUBLAS_STATUS_SUCCESS) return s;
  Call call{problem, {}, a, b, c, d, workspace, nullptr, nullptr, 0, 0};
  if (problem.operation.pointer_mode == CUBLASLT_POINTER_MODE_HOST) {
    std::memcpy(&call.alpha, alpha, sizeof(float));
    std::memcpy(&call.beta, beta, sizeof(float));
  } else {
    call.alpha_at = alpha;
    call.beta_at = beta;
  }
  if (algorithm) {
    std::memcpy(static_cast<void*>(&call.algorithm), algorithm, sizeof(Algorithm));
  } else {  // "When NULL, an implicit heuristics query with default search preferences will be performed"
    Preference preference;
    preference.workspace = workspace_bytes;
    call.algorithm = algorithms(problem, preference).front();
  }
  return start(call, workspace_bytes, stream);
}

const char* cublasLtGetStatusString(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "the operation completed successfully";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "the library was not initialized";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "an unsupported value or parameter was passed to the function";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "the GPU program failed to execute";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "the requested functionality is not supported";
    default:
      return "unknown status";
  }
}
