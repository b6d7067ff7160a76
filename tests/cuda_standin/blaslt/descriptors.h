// cuBLASLt's descriptors as the stand-in holds them. cuBLAS documentation, "Using the cuBLASLt API", data types
// reference; names in cublasLt.h.
#pragma once

#include <cublasLt.h>

#include <cstdint>

namespace genesis::standin {

struct Layout {
  cudaDataType type = CUDA_R_32F;
  uint64_t rows = 0, columns = 0;
  int64_t ld = 0;
  cublasLtOrder_t order = CUBLASLT_ORDER_COL;
  int32_t batch_count = 1;

  bool operator==(const Layout&) const = default;
};

struct Operation {
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  cudaDataType_t scale = CUDA_R_32F;
  int32_t pointer_mode = CUBLASLT_POINTER_MODE_HOST;
  int32_t transpose_a = CUBLAS_OP_N, transpose_b = CUBLAS_OP_N, transpose_c = CUBLAS_OP_N;
  int32_t fill = CUBLAS_FILL_MODE_FULL;
  uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
};

struct Preference {
  uint32_t search = CUBLASLT_SEARCH_BEST_FIT;
  uint64_t workspace = 0;  // bytes at most
  uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_MASK;
  uint32_t alignment[4] = {256, 256, 256, 256};  // of A, B, C, D
};

// A product as its descriptors say.
struct Problem {
  Operation operation;
  Layout a, b, c, d;

  uint64_t m() const { return d.rows; }
  uint64_t n() const { return d.columns; }
  uint64_t k() const { return operation.transpose_a == CUBLAS_OP_N ? a.columns : a.rows; }
};

inline const Layout& of(cublasLtMatrixLayout_t layout) { return *reinterpret_cast<const Layout*>(layout); }
inline const Operation& of(cublasLtMatmulDesc_t operation) {
  return *reinterpret_cast<const Operation*>(operation);
}
inline const Preference& of(cublasLtMatmulPreference_t p) { return *reinterpret_cast<const Preference*>(p); }

inline size_t element_bytes(cudaDataType type) { return type == CUDA_R_16BF ? 2 : 4; }

// What the manual says of a product: CUBLAS_STATUS_INVALID_VALUE for parameters in conflict, NOT_SUPPORTED for what no
// library computes and what this one does not.
cublasStatus_t check_problem(const Problem& problem);

}  // namespace genesis::standin
