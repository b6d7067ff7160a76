#include "io/byte_source.h"

#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <cstring>
#include <string_view>

#include "io/input_file.h"
#include "kernels/common/error.h"

namespace genesis {

namespace {

class PlainSource : public ByteSource {
 public:
  explicit PlainSource(std::unique_ptr<InputFile> file) : file_(std::move(file)) {}

  size_t read(std::span<char> buffer) override {
    size_t filled = 0;
    while (filled < buffer.size() && !file_->ready().empty()) {
      const std::string_view part = file_->ready().substr(0, buffer.size() - filled);
      std::memcpy(buffer.data() + filled, part.data(), part.size());
      filled += part.size();
      file_->use(part.size());
    }
    return filled;
  }
  int64_t consumed() const override { return file_->used(); }

 private:
  std::unique_ptr<InputFile> file_;
};

class GzipSource : public ByteSource {
 public:
  explicit GzipSource(std::unique_ptr<InputFile> file) : file_(std::move(file)) {
    constexpr int kGzipOnly = 15 + 16;  // zlib.h: the largest window, and gzip's header and trailer
    require(inflateInit2(&stream_, kGzipOnly) == Z_OK, "zlib does not start");
  }
  ~GzipSource() override { inflateEnd(&stream_); }

  size_t read(std::span<char> buffer) override {
    stream_.next_out = reinterpret_cast<Bytef*>(buffer.data());
    stream_.avail_out = uInt(buffer.size());
    while (stream_.avail_out > 0) {
      const std::string_view input = file_->ready();
      if (input.empty()) {
        check(between_members_, file_->name() + ": the gzip data is cut short");
        break;
      }
      if (between_members_) inflateReset(&stream_);  // a gzip file may hold several, one after another
      between_members_ = false;
      stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(input.data()));
      stream_.avail_in = uInt(input.size());
      const int status = inflate(&stream_, Z_NO_FLUSH);
      file_->use(input.size() - stream_.avail_in);
      check(status == Z_OK || status == Z_STREAM_END,
            file_->name() + ": the gzip data is damaged before byte " + std::to_string(file_->used()) +
                (stream_.msg ? std::string(" (") + stream_.msg + ")" : ""));
      between_members_ = status == Z_STREAM_END;
    }
    return buffer.size() - stream_.avail_out;
  }
  int64_t consumed() const override { return file_->used(); }

 private:
  std::unique_ptr<InputFile> file_;
  z_stream stream_{};
  bool between_members_ = false;
};

class ZstdSource : public ByteSource {
 public:
  explicit ZstdSource(std::unique_ptr<InputFile> file)
      : file_(std::move(file)), stream_(ZSTD_createDStream()) {
    require(stream_ != nullptr, "zstd does not start");
    constexpr int kLargestWindow = 31;  // zstd --long=31: 2 GiB; the library's own limit is 27
    ZSTD_DCtx_setParameter(stream_, ZSTD_d_windowLogMax, kLargestWindow);
  }
  ~ZstdSource() override { ZSTD_freeDStream(stream_); }

  size_t read(std::span<char> buffer) override {
    ZSTD_outBuffer out{buffer.data(), buffer.size(), 0};
    while (out.pos < out.size) {
      const std::string_view input = file_->ready();
      ZSTD_inBuffer in{input.data(), input.size(), 0};
      const size_t before = out.pos;
      const size_t status = ZSTD_decompressStream(stream_, &out, &in);
      check(ZSTD_getErrorCode(status) != ZSTD_error_memory_allocation,
            file_->name() +
                ": there is not enough memory for its zstd window: files of zstd --long=31 need 2 GiB");
      check(ZSTD_getErrorCode(status) != ZSTD_error_frameParameter_windowTooLarge,
            file_->name() + ": has a zstd window of over 2 GiB, which is more than is read here");
      check(ZSTD_getErrorCode(status) != ZSTD_error_dictionary_wrong,
            file_->name() +
                ": was compressed with a dictionary (zstd -D), which it cannot be read without: "
                "zstd -D DICTIONARY -dc FILE | genesis_tokenize ... -");
      check(!ZSTD_isError(status), file_->name() + ": the zstd data is damaged before byte " +
                                       std::to_string(file_->used() + int64_t(in.pos)) + " (" +
                                       ZSTD_getErrorName(status) + ")");
      if (in.pos > 0) file_->use(in.pos);
      if (in.pos > 0 || out.pos > before) unfinished_ = status;  // bytes it still wants; 0: a frame has ended
      if (input.empty() && out.pos == before) {
        check(unfinished_ == 0, file_->name() + ": the zstd data is cut short");
        break;
      }
    }
    return out.pos;
  }
  int64_t consumed() const override { return file_->used(); }

 private:
  std::unique_ptr<InputFile> file_;
  ZSTD_DStream* stream_;
  size_t unfinished_ = 0;
};

// Whether the bytes begin as zstd's do: with a frame, or one to be skipped, as pzstd writes (RFC 8878).
bool is_zstd(std::string_view bytes) {
  const bool skippable =
      bytes.size() >= 4 && (uint8_t(bytes[0]) & 0xf0) == 0x50 && bytes.substr(1, 3) == "\x2a\x4d\x18";
  return skippable || bytes.starts_with("\x28\xb5\x2f\xfd");
}

// What is often text, but packed in a way that is not read here.
void check_not_packed(std::string_view bytes, const std::string& name) {
  struct Format {
    std::string_view magic;
    const char* name;
    const char* advice;
  };
  constexpr Format kFormats[] = {
      {std::string_view("\xfd"
                        "7zXZ\0",
                        6),
       "xz", "xz -dc FILE | genesis_tokenize ... -"},
      {"BZh91AY&SY", "bzip2", "bzip2 -dc FILE | genesis_tokenize ... -"},
      {"\x04\x22\x4d\x18", "LZ4", "lz4 -dc FILE | genesis_tokenize ... -"},
      {"PK\x03\x04", "a ZIP archive", "unpack it first"},
      {"7z\xbc\xaf\x27\x1c", "a 7-Zip archive", "unpack it first"},
      {"PAR1\x15", "Parquet", "write it as JSONL first"},
      {"%PDF-", "PDF", "extract its text first"},
  };
  for (const Format& format : kFormats) {
    check(!bytes.starts_with(format.magic),
          name + ": is " + format.name + "; expected text, or gzip or zstd of text: " + format.advice);
  }
}

}  // namespace

std::string lower_case(std::string text) {
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c;
  return text;
}

std::unique_ptr<ByteSource> open_bytes(const std::string& path, const OnNotice& notice) {
  auto file = std::make_unique<InputFile>(path, notice);
  if (file->ready().starts_with("\x1f\x8b")) {  // RFC 1952
    return std::make_unique<GzipSource>(std::move(file));
  }
  if (is_zstd(file->ready())) return std::make_unique<ZstdSource>(std::move(file));
  const std::string name = lower_case(path);
  for (const char* extension : kCompressed) {
    check(!name.ends_with(extension), path + ": is not compressed as its name says");
  }
  check_not_packed(file->ready(), file->name());
  return std::make_unique<PlainSource>(std::move(file));
}

}  // namespace genesis
