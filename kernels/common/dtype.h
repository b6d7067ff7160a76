// Number types of tensors in memory.
#pragma once

#include <cstddef>
#include <cstdint>

namespace genesis {

enum class DType : uint8_t { f32, bf16, i32 };

constexpr size_t size_of(DType t) { return t == DType::bf16 ? 2 : 4; }

constexpr const char* name_of(DType t) {
  switch (t) {
    case DType::f32:
      return "f32";
    case DType::bf16:
      return "bf16";
    case DType::i32:
      return "i32";
  }
  return "?";
}

}  // namespace genesis
