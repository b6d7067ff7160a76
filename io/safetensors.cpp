#include "io/safetensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <set>

#include "io/json.h"
#include "kernels/common/error.h"

namespace genesis {
namespace {

static_assert(std::endian::native == std::endian::little, "tensors are written as they are in memory");

struct DTypeRow {
  const char* name;
  size_t size;
};
constexpr std::array<DTypeRow, 6> kDTypes{
    {{"F32", 4}, {"BF16", 2}, {"I32", 4}, {"I64", 8}, {"U64", 8}, {"U8", 1}}};

constexpr const char* kMetadataKey = "__metadata__";
constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kMaxHeader = 100'000'000;  // the reference implementation's limit
// The data starts at a multiple of this; the reference asks for 8, a cache line costs nothing.
constexpr uint64_t kAlignment = 64;

bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

[[noreturn]] void fail(const std::string& path, const std::string& tensor, const std::string& reason) {
  std::string name;
  for (const char c : tensor) name += is_control(c) ? fmt::format("\\x{:02x}", c) : std::string(1, c);
  throw Error(fmt::format("{}: tensor '{}': {}", path, name, reason));
}

// A JSON value as part of a message.
std::string shown(const nlohmann::json& value) {
  std::string text = value.dump();
  if (text.size() > 100) text = text.substr(0, 100) + "...";
  return text;
}

void check_name(const std::string& path, const std::string& name) {
  if (name.empty() || name == kMetadataKey) fail(path, name, "not a name a tensor may have");
  if (std::any_of(name.begin(), name.end(), is_control)) fail(path, name, "a control character in its name");
}

StoredDType parse_dtype(const nlohmann::json& value, const std::string& path, const std::string& tensor) {
  if (value.is_string()) {
    if (const auto dtype = dtype_named(value.get_ref<const std::string&>())) return *dtype;
  }
  std::vector<const char*> known;
  for (const DTypeRow& row : kDTypes) known.push_back(row.name);
  fail(path, tensor, fmt::format("dtype {} is not one of {}", shown(value), fmt::join(known, ", ")));
}

// A list of non-negative integers that fit int64.
std::vector<int64_t> parse_integers(const nlohmann::json& value, const std::string& path,
                                    const std::string& tensor, const char* field) {
  std::vector<int64_t> list;
  bool good = value.is_array();
  if (good) {
    for (const auto& item : value) {
      good = good && item.is_number_unsigned() && item.get<uint64_t>() <= uint64_t(INT64_MAX);
      if (good) list.push_back(item.get<int64_t>());
    }
  }
  if (!good) {
    fail(path, tensor,
         fmt::format("{} must be a list of non-negative integers, found {}", field, shown(value)));
  }
  return list;
}

struct Entry {
  TensorView tensor;
  uint64_t begin, end;
};

Entry parse_entry(const std::string& name, const nlohmann::json& value, const std::string& path) {
  check_name(path, name);
  if (!value.is_object() || value.size() != 3 || !value.contains("dtype") || !value.contains("shape") ||
      !value.contains("data_offsets")) {
    fail(path, name, "its entry must hold exactly dtype, shape and data_offsets");
  }
  Entry entry{{name, parse_dtype(value["dtype"], path, name), {}, nullptr}, 0, 0};
  entry.tensor.shape = parse_integers(value["shape"], path, name, "shape");
  const auto offsets = parse_integers(value["data_offsets"], path, name, "data_offsets");
  if (offsets.size() != 2 || offsets[0] > offsets[1]) {
    fail(path, name,
         "data_offsets must be [begin, end] with begin <= end, found " + shown(value["data_offsets"]));
  }
  entry.begin = uint64_t(offsets[0]);
  entry.end = uint64_t(offsets[1]);
  const uint64_t bytes =
      byte_size(entry.tensor.dtype, entry.tensor.shape, fmt::format("{}: tensor '{}'", path, name));
  if (entry.end - entry.begin != bytes) {
    fail(path, name,
         fmt::format("dtype {} and shape [{}] are {} bytes, but data_offsets [{}, {}] are {}",
                     name_of(entry.tensor.dtype), fmt::join(entry.tensor.shape, ", "), bytes, entry.begin,
                     entry.end, entry.end - entry.begin));
  }
  return entry;
}

Metadata parse_metadata(const nlohmann::json& value, const std::string& path) {
  const std::string expected = fmt::format("{}: {} must map text to text", path, kMetadataKey);
  check(value.is_object(), expected);
  Metadata metadata;
  for (const auto& [key, text] : value.items()) {
    check(text.is_string(), fmt::format("{}; '{}' does not", expected, key));
    metadata[key] = text.get<std::string>();
  }
  return metadata;
}

// The header's text, whose length has been checked against the file's.
std::string_view header_of(std::span<const std::byte> file, const std::string& path) {
  check(file.size() >= kLengthBytes,
        fmt::format("{}: not a safetensors file: {} bytes are too few for the header's length", path,
                    file.size()));
  uint64_t length;
  std::memcpy(&length, file.data(), kLengthBytes);
  check(length <= kMaxHeader,
        fmt::format("{}: not a safetensors file: it gives its header {} bytes, over the "
                    "format's limit of {}",
                    path, length, kMaxHeader));
  check(length <= file.size() - kLengthBytes,
        fmt::format("{}: the file is cut off: its header should have {} bytes, {} are there", path, length,
                    file.size() - kLengthBytes));
  const std::string_view header(reinterpret_cast<const char*>(file.data()) + kLengthBytes, length);
  check(header.starts_with('{'), path + ": not a safetensors file: its header does not begin with '{'");
  return header;
}

// The tensors' bytes must follow one another from the data's first byte to the file's last.
void check_cover(const std::vector<Entry>& entries, uint64_t data_bytes, const std::string& path) {
  uint64_t expected = 0;
  for (const Entry& entry : entries) {
    if (entry.begin != expected) {
      fail(path, entry.tensor.name,
           fmt::format("its bytes begin at {}, but the tensor before ends at {}: {}", entry.begin, expected,
                       entry.begin < expected ? "they overlap" : "there is a hole"));
    }
    if (entry.end > data_bytes) {
      fail(path, entry.tensor.name,
           fmt::format("the file is cut off: its bytes end at {} of {} that are there", entry.end,
                       data_bytes));
    }
    expected = entry.end;
  }
  check(expected == data_bytes,
        fmt::format("{}: {} bytes after the last tensor belong to none", path, data_bytes - expected));
}

std::string header_text(std::span<const TensorView* const> tensors, const Metadata& metadata,
                        const std::string& path) {
  // Field by field: an ordered_json looks through all that it has before it adds one.
  std::string text = "{";
  const auto add = [&text](const std::string& key, const nlohmann::ordered_json& value) {
    if (text.size() > 1) text += ',';
    text += nlohmann::json(key).dump();
    text += ':';
    text += value.dump();
  };
  try {
    if (!metadata.empty()) add(kMetadataKey, metadata);
    uint64_t offset = 0;
    for (const TensorView* t : tensors) {
      const uint64_t end =
          offset + byte_size(t->dtype, t->shape, fmt::format("{}: tensor '{}'", path, t->name));
      add(t->name, {{"dtype", name_of(t->dtype)}, {"shape", t->shape}, {"data_offsets", {offset, end}}});
      offset = end;
    }
    text += "}";
  } catch (const nlohmann::json::exception& error) {
    throw Error(path + ": a tensor's name or the metadata is not UTF-8: " + error.what());
  }
  text.append((kAlignment - (kLengthBytes + text.size()) % kAlignment) % kAlignment, ' ');
  check(text.size() <= kMaxHeader, fmt::format("{}: a header of {} bytes is over the format's limit of {}",
                                               path, text.size(), kMaxHeader));
  return text;
}

}  // namespace

size_t size_of(StoredDType t) { return kDTypes[size_t(t)].size; }
const char* name_of(StoredDType t) { return kDTypes[size_t(t)].name; }

std::optional<StoredDType> dtype_named(std::string_view name) {
  for (size_t i = 0; i < kDTypes.size(); ++i) {
    if (name == kDTypes[i].name) return StoredDType(i);
  }
  return std::nullopt;
}

StoredDType stored(DType t) {
  switch (t) {
    case DType::f32:
      return StoredDType::f32;
    case DType::bf16:
      return StoredDType::bf16;
    case DType::i32:
      return StoredDType::i32;
  }
  throw Error("internal error: not a number type");
}

std::vector<TensorView> views_of(std::span<const NamedTensor> tensors) {
  std::vector<TensorView> views;
  views.reserve(tensors.size());
  for (const NamedTensor& t : tensors) views.push_back({t.name, t.dtype, t.shape, t.data});
  return views;
}

uint64_t byte_size(StoredDType dtype, std::span<const int64_t> shape, const std::string& name) {
  uint64_t bytes = size_of(dtype);
  bool good = true;
  for (const int64_t extent : shape) {
    good = good && extent >= 0 && !__builtin_mul_overflow(bytes, uint64_t(extent), &bytes);
  }
  check(good && bytes <= uint64_t(INT64_MAX),
        fmt::format("{}: a shape [{}] that no memory holds", name, fmt::join(shape, ", ")));
  return bytes;
}

FileSum write_safetensors(const std::string& path, std::span<const TensorView> tensors,
                          const Metadata& metadata) {
  std::set<std::string_view> names;
  std::vector<const TensorView*> order;
  for (const TensorView& t : tensors) {
    check_name(path, t.name);
    if (!names.insert(t.name).second) fail(path, t.name, "given twice");
    order.push_back(&t);
  }
  std::stable_sort(order.begin(), order.end(), [](const TensorView* a, const TensorView* b) {
    return size_of(a->dtype) > size_of(b->dtype);
  });

  const std::string header = header_text(order, metadata, path);
  const uint64_t length = header.size();
  FileWriter writer(path);
  writer.write(&length, kLengthBytes);
  writer.write(header.data(), header.size());
  for (const TensorView* t : order) writer.write(t->data, byte_size(t->dtype, t->shape, t->name));
  return writer.finish();
}

SafetensorsContent parse_safetensors(std::span<const std::byte> file, const std::string& path) {
  const std::string_view text = header_of(file, path);
  // Three levels: the file's object, a tensor's object, its lists.
  const nlohmann::json header = parse_json(text, path + ": its header", 3);
  const auto data = file.subspan(kLengthBytes + text.size());

  SafetensorsContent content;
  std::vector<Entry> entries;
  for (const auto& [name, value] : header.items()) {
    if (name == kMetadataKey) {
      content.metadata = parse_metadata(value, path);
    } else {
      entries.push_back(parse_entry(name, value, path));
    }
  }
  std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  });
  check_cover(entries, data.size(), path);
  for (Entry& entry : entries) {
    entry.tensor.data = data.data() + entry.begin;
    content.tensors.push_back(std::move(entry.tensor));
  }
  return content;
}

SafetensorsFile::SafetensorsFile(const std::string& path)
    : path_(path), file_(path), content_(parse_safetensors(file_.bytes(), path)) {
  for (const TensorView& t : content_.tensors) by_name_[t.name] = &t;
}

const TensorView* SafetensorsFile::find(std::string_view name) const {
  const auto at = by_name_.find(name);
  return at == by_name_.end() ? nullptr : at->second;
}

}  // namespace genesis
