// TensorBoard event files with scalars.
//
// A file is TFRecords (tensorflow.org/tutorials/load_data/tfrecord): the length as 64 bits, its masked CRC,
// the bytes, their masked CRC, all little-endian; each record is one Event message
// (tensorflow/core/util/event.proto) in protobuf's wire format (protobuf.dev/programming-guides/encoding).
// Only the few fields needed are written.
#pragma once

#include <cstdint>
#include <fstream>
#include <span>
#include <string>
#include <string_view>

namespace genesis {

// CRC-32C (Castagnoli; RFC 3720, section 12.1).
uint32_t crc32c(std::string_view bytes);
// Rotated and offset as in TFRecord, so that the CRC of data that holds CRCs is a good one.
uint32_t masked_crc32c(std::string_view bytes);

struct Scalar {
  std::string tag;  // "train/loss"
  double value = 0.0;
};

class EventFile {
 public:
  // Makes the folder and a new file in it. TensorBoard reads all files of the folder as one run and is told
  // to drop what earlier ones say about steps after `done_steps`. Throws Error.
  EventFile(const std::string& folder, int64_t done_steps);

  // Appends one event and flushes it. Throws Error when the disk does not take it.
  void write(int64_t step, std::span<const Scalar> scalars);

 private:
  void write_record(const std::string& event);

  std::string path_;
  std::ofstream file_;
};

}  // namespace genesis
