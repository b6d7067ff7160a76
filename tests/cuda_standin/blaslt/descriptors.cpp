#include "tests/cuda_standin/blaslt/descriptors.h"

#include <cstring>

#include "tests/cuda_standin/runtime/runtime.h"

namespace genesis::standin {
namespace {

cublasStatus_t check_layout(const Layout& l) {
  if (l.rows == 0 || l.columns == 0) return CUBLAS_STATUS_INVALID_VALUE;
  if (l.order != CUBLASLT_ORDER_COL && l.order != CUBLASLT_ORDER_ROW) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (l.batch_count != 1) return CUBLAS_STATUS_NOT_SUPPORTED;
  // "Must be large enough so that matrix columns do not overlap (e.g., greater or equal to ROWS in case of COL)".
  const uint64_t least = l.order == CUBLASLT_ORDER_COL ? l.rows : l.columns;
  return l.ld > 0 && uint64_t(l.ld) >= least ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

bool is_transposition(int32_t t) { return t == CUBLAS_OP_N || t == CUBLAS_OP_T; }

// Of the manual's table for CUBLAS_COMPUTE_32F with a scale of CUDA_R_32F: bf16 to bf16 or fp32, fp32 to fp32.
bool are_types_supported(const Problem& p) {
  if (p.operation.compute != CUBLAS_COMPUTE_32F || p.operation.scale != CUDA_R_32F) return false;
  if (p.a.type != p.b.type || p.c.type != p.d.type) return false;
  if (p.a.type == CUDA_R_32F) return p.d.type == CUDA_R_32F;
  return p.a.type == CUDA_R_16BF && (p.d.type == CUDA_R_16BF || p.d.type == CUDA_R_32F);
}

}  // namespace

cublasStatus_t check_problem(const Problem& p) {
  for (const Layout* l : {&p.a, &p.b, &p.c, &p.d}) {
    if (const cublasStatus_t s = check_layout(*l); s != CUBLAS_STATUS_SUCCESS) return s;
  }
  const Operation& o = p.operation;
  if (!is_transposition(o.transpose_a) || !is_transposition(o.transpose_b))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  if (o.transpose_c != CUBLAS_OP_N || o.fill != CUBLAS_FILL_MODE_FULL) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (o.epilogue != CUBLASLT_EPILOGUE_DEFAULT) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (o.pointer_mode != CUBLASLT_POINTER_MODE_HOST && o.pointer_mode != CUBLASLT_POINTER_MODE_DEVICE) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  const uint64_t a_rows = o.transpose_a == CUBLAS_OP_N ? p.a.rows : p.a.columns;
  const uint64_t b_rows = o.transpose_b == CUBLAS_OP_N ? p.b.rows : p.b.columns;
  const uint64_t b_columns = o.transpose_b == CUBLAS_OP_N ? p.b.columns : p.b.rows;
  const bool fit =
      a_rows == p.m() && b_rows == p.k() && b_columns == p.n() && p.c.rows == p.m() && p.c.columns == p.n();
  if (!fit) return CUBLAS_STATUS_INVALID_VALUE;
  return are_types_supported(p) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

namespace {

// A value as the manual gives its size, or a refusal.
template <class T>
cublasStatus_t set(T& value, const void* buffer, size_t bytes) {
  if (!buffer || bytes != sizeof(T)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&value, buffer, sizeof(T));
  return CUBLAS_STATUS_SUCCESS;
}

template <class Mine, class Handle>
cublasStatus_t create(Handle* handle, const Mine& mine) {
  if (!handle) return CUBLAS_STATUS_INVALID_VALUE;
  *handle = reinterpret_cast<Handle>(new Mine(mine));
  return CUBLAS_STATUS_SUCCESS;
}

template <class Mine, class Handle>
cublasStatus_t destroy(Handle handle) {
  delete reinterpret_cast<Mine*>(handle);
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace
}  // namespace genesis::standin

using namespace genesis::standin;

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type, uint64_t rows,
                                          uint64_t columns, int64_t ld) {
  if (Runtime::get().makes(Mistake::wrong_ld)) ld += 8;
  return create(layout, Layout{.type = type, .rows = rows, .columns = columns, .ld = ld});
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) { return destroy<Layout>(layout); }
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute, const void* value,
                                                size_t bytes) {
  if (!layout) return CUBLAS_STATUS_INVALID_VALUE;
  auto& mine = *reinterpret_cast<Layout*>(layout);
  switch (attribute) {
    case CUBLASLT_MATRIX_LAYOUT_ORDER:
      return set(mine.order, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_LD:
      return set(mine.ld, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
      return set(mine.batch_count, value, bytes);
    default:
      return CUBLAS_STATUS_INVALID_VALUE;
  }
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* operation, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  return create(operation, Operation{.compute = compute, .scale = scale});
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t operation) {
  return destroy<Operation>(operation);
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t operation,
                                              cublasLtMatmulDescAttributes_t attribute, const void* value,
                                              size_t bytes) {
  if (!operation) return CUBLAS_STATUS_INVALID_VALUE;
  auto& mine = *reinterpret_cast<Operation*>(operation);
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_POINTER_MODE:
      return set(mine.pointer_mode, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return set(mine.transpose_a, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return set(mine.transpose_b, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSC:
      return set(mine.transpose_c, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return set(mine.epilogue, value, bytes);
    default:
      return CUBLAS_STATUS_INVALID_VALUE;
  }
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  return create(preference, Preference{});
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  return destroy<Preference>(preference);
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, size_t bytes) {
  if (!preference) return CUBLAS_STATUS_INVALID_VALUE;
  auto& mine = *reinterpret_cast<Preference*>(preference);
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_SEARCH_MODE:
      return set(mine.search, value, bytes);
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return set(mine.workspace, value, bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
      return set(mine.reductions, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
      return set(mine.alignment[0], value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
      return set(mine.alignment[1], value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
      return set(mine.alignment[2], value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      return set(mine.alignment[3], value, bytes);
    default:
      return CUBLAS_STATUS_INVALID_VALUE;
  }
}
