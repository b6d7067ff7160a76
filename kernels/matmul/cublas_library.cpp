// cuBLASLt's functions as far as they are used, in the place of the library itself, which is loaded at the first call:
// that takes up to half a second, and a program that computes on the CPU need not pay for it.
#include <cublasLt.h>
#include <dlfcn.h>

#include <string>

#include "kernels/common/error.h"

namespace {

void* library() {
  static void* const loaded = [] {
    const std::string name = "libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR);
    void* found = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!found) {
      throw genesis::Error("matrix products on a GPU need cuBLASLt " + std::to_string(CUBLAS_VER_MAJOR) +
                           ", which cannot be loaded: " + dlerror() +
                           ". It comes with the CUDA Toolkit; LD_LIBRARY_PATH can say where it is");
    }
    return found;
  }();
  return loaded;
}

// The library's function of this name, which is that of `function`, the one declared in cublasLt.h.
template <auto* function, class... A>
auto call(const char* name, A... arguments) {
  static const auto found = [&] {
    void* address = dlsym(library(), name);
    if (!address) throw genesis::Error(std::string("the cuBLASLt that was loaded has no ") + name);
    return reinterpret_cast<decltype(function)>(address);
  }();
  return found(arguments...);
}

}  // namespace

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  return call<cublasLtCreate>("cublasLtCreate", handle);
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  return call<cublasLtDestroy>("cublasLtDestroy", handle);
}
size_t cublasLtGetVersion() { return call<cublasLtGetVersion>("cublasLtGetVersion"); }
const char* cublasLtGetStatusString(cublasStatus_t status) {
  return call<cublasLtGetStatusString>("cublasLtGetStatusString", status);
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type, uint64_t rows,
                                          uint64_t columns, int64_t ld) {
  return call<cublasLtMatrixLayoutCreate>("cublasLtMatrixLayoutCreate", layout, type, rows, columns, ld);
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  return call<cublasLtMatrixLayoutDestroy>("cublasLtMatrixLayoutDestroy", layout);
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* operation, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  return call<cublasLtMatmulDescCreate>("cublasLtMatmulDescCreate", operation, compute, scale);
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t operation) {
  return call<cublasLtMatmulDescDestroy>("cublasLtMatmulDescDestroy", operation);
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t operation,
                                              cublasLtMatmulDescAttributes_t attribute, const void* value,
                                              size_t bytes) {
  return call<cublasLtMatmulDescSetAttribute>("cublasLtMatmulDescSetAttribute", operation, attribute, value,
                                              bytes);
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  return call<cublasLtMatmulPreferenceCreate>("cublasLtMatmulPreferenceCreate", preference);
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  return call<cublasLtMatmulPreferenceDestroy>("cublasLtMatmulPreferenceDestroy", preference);
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, size_t bytes) {
  return call<cublasLtMatmulPreferenceSetAttribute>("cublasLtMatmulPreferenceSetAttribute", preference,
                                                    attribute, value, bytes);
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int most,
                                              cublasLtMatmulHeuristicResult_t* results, int* count) {
  return call<cublasLtMatmulAlgoGetHeuristic>("cublasLtMatmulAlgoGetHeuristic", handle, operation, a, b, c, d,
                                              preference, most, results, count);
}
cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                              cublasLtMatrixLayout_t c_layout, void* d, cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* algorithm, void* workspace, size_t workspace_bytes,
                              cudaStream_t stream) {
  return call<cublasLtMatmul>("cublasLtMatmul", handle, operation, alpha, a, a_layout, b, b_layout, beta, c,
                              c_layout, d, d_layout, algorithm, workspace, workspace_bytes, stream);
}
