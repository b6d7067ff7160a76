// The safetensors format (github.com/huggingface/safetensors, README "Format"), read and written:
//   8 bytes   N, little-endian
//   N bytes   JSON: {"NAME": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, ...,
//             "__metadata__": {"text": "text"}}; begins with '{', may end in spaces
//   the rest  the tensors' bytes, row-major, little-endian; offsets count from here and cover it exactly
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/file.h"
#include "io/mapped_file.h"
#include "kernels/common/dtype.h"

namespace genesis {

// The number types this library stores, in the order of safetensors_dtypes() in safetensors.cpp.
enum class StoredDType : uint8_t { f32, bf16, i32, i64, u64, u8 };
size_t size_of(StoredDType t);
const char* name_of(StoredDType t);  // as the format spells it: "F32"
StoredDType stored(DType t);
std::optional<StoredDType> dtype_named(std::string_view name);  // nothing: not one of them

template <class Pointer>
struct BasicTensor {
  std::string name;
  StoredDType dtype = StoredDType::f32;
  std::vector<int64_t> shape;  // may be empty (a scalar) and may hold zeros
  Pointer data = nullptr;      // dense, row-major
};
using TensorView = BasicTensor<const void*>;  // to save from
using NamedTensor = BasicTensor<void*>;       // to load into

// The same tensors, to save from.
std::vector<TensorView> views_of(std::span<const NamedTensor> tensors);

// The bytes a tensor of this type and shape has. Error, beginning with `name`, if that is negative or
// overflows.
uint64_t byte_size(StoredDType dtype, std::span<const int64_t> shape, const std::string& name);

using Metadata = std::map<std::string, std::string>;

// Writes a file straight from the tensors' memory and syncs it to disk. In the file, wider element types come
// first, so that every tensor is aligned to its element's size; otherwise the order is the given one. Error:
// a name that is empty, not UTF-8, "__metadata__", has a control character, or appears twice; or writing
// fails.
FileSum write_safetensors(const std::string& path, std::span<const TensorView> tensors,
                          const Metadata& metadata = {});

struct SafetensorsContent {
  std::vector<TensorView> tensors;  // in the order of their bytes in the file
  Metadata metadata;
};

// Reads a file's content that is in memory; the views point into it. Everything is checked before anything is
// returned: each Error names the file, the tensor and the reason. A view of a file of another writer may be
// unaligned: copy it with memcpy.
SafetensorsContent parse_safetensors(std::span<const std::byte> file, const std::string& path);

// A mapped file and its tensors.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::string& path);

  const std::string& path() const { return path_; }
  std::span<const std::byte> bytes() const { return file_.bytes(); }
  std::span<const TensorView> tensors() const { return content_.tensors; }
  const Metadata& metadata() const { return content_.metadata; }
  const TensorView* find(std::string_view name) const;  // null: not in the file

 private:
  std::string path_;
  MappedFile file_;
  SafetensorsContent content_;
  std::map<std::string_view, const TensorView*> by_name_;
};

}  // namespace genesis
