// Muon on matrices of one shape; see kernels/muon/muon.h.
#pragma once

#include "engine/ops/op.h"
#include "kernels/muon/muon.h"

namespace genesis {

struct MuonAttrs {
  int64_t rows = 0, columns = 0;
  float beta = 0.95f;
  float factor = 1.f;  // of the orthogonal matrix in the update
  MuonCoefficients coefficients;
  struct Matrix {
    int64_t tensor = 0;  // the parameter that it is some rows of: a place in the list of gradients
    int64_t first_row = 0;
    float weight_decay = 0.f;
  };
  std::vector<Matrix> matrices;
};

namespace ops {
extern const OpDef kMuon;
}

}  // namespace genesis
