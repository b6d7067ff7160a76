// cuBLASLt is loaded at the first call: here, where there need be no GPU, those of its functions that take none.
#include <cublasLt.h>

#include "tests/support/catch.h"

TEST_CASE("cuBLASLt: the library is found and loaded when it is called, and its functions are passed on") {
  CHECK(cublasLtGetVersion() / 10000 == CUBLAS_VER_MAJOR);
  CHECK(std::string(cublasLtGetStatusString(CUBLAS_STATUS_NOT_SUPPORTED)) != "");

  cublasLtMatrixLayout_t layout = nullptr;
  REQUIRE(cublasLtMatrixLayoutCreate(&layout, CUDA_R_16BF, 3, 5, 3) == CUBLAS_STATUS_SUCCESS);
  CHECK(cublasLtMatrixLayoutDestroy(layout) == CUBLAS_STATUS_SUCCESS);

  cublasLtMatmulDesc_t operation = nullptr;
  REQUIRE(cublasLtMatmulDescCreate(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F) == CUBLAS_STATUS_SUCCESS);
  const int32_t transposed = CUBLAS_OP_T, nonsense = 77;
  const auto set = [&](const int32_t& value) {
    return cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_TRANSA, &value, sizeof value);
  };
  CHECK(set(transposed) == CUBLAS_STATUS_SUCCESS);
  CHECK(cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_TRANSA, &nonsense, 1) ==
        CUBLAS_STATUS_INVALID_VALUE);
  CHECK(cublasLtMatmulDescDestroy(operation) == CUBLAS_STATUS_SUCCESS);

  cublasLtMatmulPreference_t preference = nullptr;
  REQUIRE(cublasLtMatmulPreferenceCreate(&preference) == CUBLAS_STATUS_SUCCESS);
  const uint64_t bytes = 1 << 20;
  CHECK(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes,
                                             sizeof bytes) == CUBLAS_STATUS_SUCCESS);
  CHECK(cublasLtMatmulPreferenceDestroy(preference) == CUBLAS_STATUS_SUCCESS);

  // With a GPU or without one, the answer is the library's own.
  cublasLtHandle_t handle = nullptr;
  const cublasStatus_t created = cublasLtCreate(&handle);
  if (created == CUBLAS_STATUS_SUCCESS) CHECK(cublasLtDestroy(handle) == CUBLAS_STATUS_SUCCESS);
}
