#include <cublasLt.h>
#include <fmt/format.h>

#include <string>
#include <utility>

#include "kernels/common/cuda.h"
#include "kernels/matmul/matmul.h"

namespace genesis::cuda {
namespace {

void ok(cublasStatus_t status, const char* call) {
  check(status == CUBLAS_STATUS_SUCCESS, std::string(call) + ": " + cublasLtGetStatusString(status));
}

// A cuBLASLt object with its destructor.
template <class T, cublasStatus_t (*destroy)(T)>
class Owned {
 public:
  Owned() = default;
  Owned(Owned&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Owned() {
    if (object_) destroy(object_);
  }
  T* address() { return &object_; }
  T get() const { return object_; }

 private:
  T object_ = nullptr;
};
using Operation = Owned<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using Layout = Owned<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using Preference = Owned<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

cudaDataType_t cuda_type(DType t) { return t == DType::bf16 ? CUDA_R_16BF : CUDA_R_32F; }

// To cuBLASLt, which counts columns first, a row-major matrix is its transpose.
Layout row_major(int64_t rows, int64_t columns, DType type) {
  Layout layout;
  ok(cublasLtMatrixLayoutCreate(layout.address(), cuda_type(type), uint64_t(columns), uint64_t(rows),
                                columns),
     "cublasLtMatrixLayoutCreate");
  return layout;
}

template <class T>
void set(const Operation& o, cublasLtMatmulDescAttributes_t attribute, T value) {
  ok(cublasLtMatmulDescSetAttribute(o.get(), attribute, &value, sizeof value),
     "cublasLtMatmulDescSetAttribute");
}
template <class T>
void set(const Preference& p, cublasLtMatmulPreferenceAttributes_t attribute, T value) {
  ok(cublasLtMatmulPreferenceSetAttribute(p.get(), attribute, &value, sizeof value),
     "cublasLtMatmulPreferenceSetAttribute");
}

Preference preference() {
  Preference p;
  ok(cublasLtMatmulPreferenceCreate(p.address()), "cublasLtMatmulPreferenceCreate");
  set(p, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t(kMatMulWorkspace));
  // Partial sums of a split product are added in the order of the splits, as fp32.
  set(p, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, uint32_t(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  for (const auto attribute :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    set(p, attribute, uint32_t(16));
  }
  return p;
}

std::string text(const MatMulShape& s) {
  return fmt::format("C[{}, {}] {} {}A {}B over {} terms, A and B {}, C {}", s.M, s.N,
                     s.accumulate ? "+=" : "=", s.transpose_a ? "transposed " : "",
                     s.transpose_b ? "transposed " : "", s.K, name_of(s.a), name_of(s.c));
}

}  // namespace

BlasLt::BlasLt() { ok(cublasLtCreate(reinterpret_cast<cublasLtHandle_t*>(&handle_)), "cublasLtCreate"); }
BlasLt::~BlasLt() { cublasLtDestroy(static_cast<cublasLtHandle_t>(handle_)); }

struct MatMul::State {
  MatMulShape shape;
  cublasLtHandle_t handle = nullptr;
  Operation operation;
  Layout a, b, c;
  cublasLtMatmulAlgo_t algorithm = {};
};

// C^T = op(B)^T op(A)^T: cuBLASLt's first operand is our B, its second our A.
MatMul::MatMul(const MatMulShape& s, const BlasLt& library) : state_(std::make_unique<State>()) {
  require_computable(s);
  State& state = *state_;
  state.shape = s;
  state.handle = static_cast<cublasLtHandle_t>(library.handle());
  ok(cublasLtMatmulDescCreate(state.operation.address(), CUBLAS_COMPUTE_32F, CUDA_R_32F),
     "cublasLtMatmulDescCreate");
  set(state.operation, CUBLASLT_MATMUL_DESC_TRANSA, s.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(state.operation, CUBLASLT_MATMUL_DESC_TRANSB, s.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
  state.a = s.transpose_a ? row_major(s.K, s.M, s.a) : row_major(s.M, s.K, s.a);
  state.b = s.transpose_b ? row_major(s.N, s.K, s.b) : row_major(s.K, s.N, s.b);
  state.c = row_major(s.M, s.N, s.c);

  cublasLtMatmulHeuristicResult_t best = {};
  int found = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(state.handle, state.operation.get(), state.b.get(), state.a.get(),
                                     state.c.get(), state.c.get(), preference().get(), 1, &best, &found);
  check(status == CUBLAS_STATUS_SUCCESS && found == 1 && best.state == CUBLAS_STATUS_SUCCESS,
        "cuBLASLt has no algorithm for " + text(s) + " (" + cublasLtGetStatusString(status) + ")");
  state.algorithm = best.algo;
}

MatMul::~MatMul() = default;
MatMul::MatMul(MatMul&&) noexcept = default;
MatMul& MatMul::operator=(MatMul&&) noexcept = default;

void MatMul::operator()(const void* a, const void* b, void* c, void* workspace, Stream stream) const {
  const State& s = *state_;
  const float one = 1.f, beta = s.shape.accumulate ? 1.f : 0.f;
  const cublasStatus_t status =
      cublasLtMatmul(s.handle, s.operation.get(), &one, b, s.b.get(), a, s.a.get(), &beta, c, s.c.get(), c,
                     s.c.get(), &s.algorithm, workspace, kMatMulWorkspace, cuda_stream(stream));
  if (status != CUBLAS_STATUS_SUCCESS) {
    throw Error("cublasLtMatmul of " + text(s.shape) + ": " + cublasLtGetStatusString(status));
  }
}

}  // namespace genesis::cuda
