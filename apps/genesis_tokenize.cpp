// genesis_tokenize: trains a tokenizer, encodes text to token datasets, and decodes them.
#include <climits>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <limits>
#include <optional>

#include "apps/integer_in.h"
#include "apps/main.h"
#include "apps/remove_on_signal.h"
#include "io/encode.h"
#include "io/file.h"
#include "io/input_file.h"
#include "io/output_claim.h"
#include "io/progress.h"
#include "kernels/common/error.h"

using namespace genesis;
namespace fs = std::filesystem;

namespace {

struct Options {
  CorpusOptions corpus;
  TokenizerOptions training;
  std::string format, tokenizer, output, validation_output, prefix;
  double validation_fraction = 0;
  bool force = false;
};

// A shell cannot type a line end: \n, \r, \t and \\ in a separator stand for what they do in C.
std::string unescaped(const std::string& text) {
  constexpr std::string_view kEscapes = "nrt\\", kMeant = "\n\r\t\\";
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      result += text[i];
      continue;
    }
    const std::string escape = text.substr(i++, 2);
    const size_t known = escape.size() == 2 ? kEscapes.find(escape[1]) : std::string_view::npos;
    check(known != std::string_view::npos,
          "--separator: " + escape + " is no escape; there are \\n, \\r, \\t and, for a backslash, \\\\");
    result += kMeant[known];
  }
  return result;
}

std::vector<std::string> dataset_files(const std::string& prefix) {
  std::vector<std::string> files;
  for (const char* extension : {".bin", ".idx", ".json"}) {
    files.push_back(dataset_file(prefix, extension).string());
  }
  return files;
}

// Refuses what could not be written, or would replace what it must not, before any work is done.
constexpr size_t kLongestSuffix = sizeof ".lengths.tmp" - 1;
void check_output(const std::string& path, const std::vector<std::string>& inputs, bool force) {
  check(path.size() < PATH_MAX && fs::path(path).filename().string().size() <= NAME_MAX - kLongestSuffix,
        path.substr(0, 40) + "...: is too long for a file's name");
  std::error_code absent;
  check(!fs::is_directory(path, absent), path + ": is a folder; expected the name of a file to write");
  const fs::path folder = fs::path(file_to_replace(path)).parent_path();
  check(folder.empty() || fs::is_directory(folder),
        path + ": there is no folder " + folder.string() + " to write it into: make it first");
  check(force || !fs::exists(path), path + ": is there already; --force replaces it");
  for (const std::string& input : inputs) {
    check(!fs::equivalent(path, input, absent),
          path + ": is read here, so it cannot be written as well: choose another name for the output");
  }
}

void check_dataset_output(const std::string& prefix, const std::vector<std::string>& inputs, bool force) {
  check(fs::path(prefix).has_filename(),
        "a dataset's PREFIX ends with the name of its files, as in data/train; found '" + prefix + "'");
  for (const std::string& file : dataset_files(prefix)) check_output(file, inputs, force);
}

std::vector<std::string> with(std::vector<std::string> files, const std::string& one) {
  files.push_back(one);
  return files;
}

ProgressBar bar(const std::string& label, int64_t bytes) {
  return ProgressBar({.label = label, .total = bytes, .unit = ProgressBar::Unit::bytes},
                     Terminal::standard_error());
}

// What is held out of a text begins with the first line or document at or after this byte: after the end where
// nothing is.
struct HoldOut {
  int64_t from = INT64_MAX;
  int64_t bytes = 0;  // of the whole text
};

HoldOut held_out(const Options& o) {
  if (o.validation_fraction == 0) return {};
  for (const std::string& file : o.corpus.files) {
    const bool regular = file != kStandardInput && (!fs::exists(file) || fs::is_regular_file(file));
    check(
        regular,
        file + ": is not a regular file, and --validation-fraction reads the text twice: save it to a file");
  }
  Corpus corpus(o.corpus);
  ProgressBar progress = bar("count", corpus.file_bytes());
  const int64_t bytes = count_text(corpus, [&](int64_t read) { progress.advance(read); });
  progress.finish();
  return {bytes - int64_t(double(bytes) * o.validation_fraction), bytes};
}

void check_held_out(const Options& o, const HoldOut& hold_out, bool any) {
  if (o.validation_fraction == 0 || any) return;
  throw Error(
      "nothing would be held out for validation: of " + std::to_string(hold_out.bytes) +
      " bytes of text the last " + std::to_string(hold_out.bytes - hold_out.from) +
      " are wanted, and no line or document begins there; give a larger --validation-fraction, text with "
      "more lines, or encode other files as validation data");
}

// Lines that --skip-invalid left out.
void report_skipped(const CorpusFindings& findings) {
  for (const auto& [kind, skipped] : findings.skipped) {
    std::cerr << "skipped " << skipped.lines << (skipped.lines == 1 ? " line that " : " lines; each ") << kind
              << "\n  the first: " << skipped.first << "\n";
  }
}

void train(const Options& o) {
  check_output(o.output, o.corpus.files, o.force);
  const OutputClaim claim(o.output);
  remove_on_signal({file_to_replace(o.output) + ".tmp", OutputClaim::lock_file(o.output)});
  const HoldOut hold_out = held_out(o);
  Corpus corpus(o.corpus, hold_out.from);
  ProgressBar progress = bar("read", corpus.file_bytes());
  const std::string model = Tokenizer::train(o.training, [&]() -> std::optional<std::string> {
    const int64_t before = corpus.consumed();
    auto block = corpus.next();
    progress.advance(corpus.consumed() - before);
    if (block && !block->held_out) return std::move(block->text);
    progress.finish();
    report_skipped(corpus.findings());
    check_held_out(o, hold_out, block.has_value());
    std::cerr << "learning " << o.training.vocab_size << " pieces\n";
    return std::nullopt;
  });
  replace_text_file(o.output, model);
  const Tokenizer tokenizer(o.output);
  std::cout << o.output << ": " << tokenizer.vocab_size() << " pieces, hash " << tokenizer.hash() << "\n";
}

void report(const fs::path& prefix, const DatasetInfo& info) {
  std::cout << prefix.string() << ": " << info.tokens << " tokens, " << info.documents << " documents, "
            << info.bytes << " bytes\n";
}

void encode(const Options& o) {
  check((o.validation_fraction > 0) == !o.validation_output.empty(),
        "--validation-fraction and --validation-output go together");
  const std::vector<std::string> inputs = with(o.corpus.files, o.tokenizer);
  check_dataset_output(o.output, inputs, o.force);
  if (!o.validation_output.empty()) {
    check_dataset_output(o.validation_output, inputs, o.force);
    const auto place = [](const std::string& prefix) { return fs::weakly_canonical(fs::absolute(prefix)); };
    check(place(o.output) != place(o.validation_output),
          "--output and --validation-output are both " + o.output + ": they need names of their own");
  }
  const Tokenizer tokenizer(o.tokenizer);
  DatasetWriter main(o.output, tokenizer.vocab_size(), tokenizer.eod(), tokenizer.hash());
  std::optional<DatasetWriter> validation;
  if (!o.validation_output.empty()) {
    validation.emplace(o.validation_output, tokenizer.vocab_size(), tokenizer.eod(), tokenizer.hash());
  }
  std::vector<std::string> temporaries = main.temporaries();
  if (validation) {
    for (const std::string& file : validation->temporaries()) temporaries.push_back(file);
  }
  remove_on_signal(temporaries);
  const HoldOut hold_out = held_out(o);
  Corpus corpus(o.corpus, hold_out.from);
  ProgressBar progress = bar("encode", corpus.file_bytes());
  encode_corpus(corpus, tokenizer, main, validation ? &*validation : nullptr,
                [&](int64_t read) { progress.advance(read); });
  progress.finish();
  report_skipped(corpus.findings());
  if (validation) check_held_out(o, hold_out, validation->documents() > 0);
  if (validation) report(o.validation_output, validation->finish());
  report(o.output, main.finish());
}

void decode(const Options& o) {
  const Tokenizer tokenizer(o.tokenizer);
  const TokenDataset data(o.prefix);
  const auto write = [&](std::ostream& out) {
    ProgressBar progress({.label = "decode", .total = data.tokens(), .noun = "tokens"},
                         Terminal::standard_error());
    decode_dataset(data, tokenizer, o.corpus.separator, out,
                   [&](int64_t tokens) { progress.advance(tokens); });
    progress.finish();
  };
  if (o.output.empty()) return write(std::cout);
  check_output(o.output, with(dataset_files(o.prefix), o.tokenizer), o.force);
  const std::string replaced = file_to_replace(o.output), temporary = replaced + ".tmp";
  const OutputClaim claim(o.output);
  remove_on_signal({temporary, OutputClaim::lock_file(o.output)});
  std::ofstream file(temporary, std::ios::binary);
  if (!file) throw_errno("cannot write " + temporary);
  try {
    write(file);
  } catch (...) {
    fs::remove(temporary);
    throw;
  }
  fs::rename(temporary, replaced);
}

void add_corpus_options(CLI::App* command, Options& o) {
  command
      ->add_option("files", o.corpus.files,
                   "Text, or JSONL by the name .jsonl, .ndjson or .json; .gz and .zst of both; - is standard "
                   "input")
      ->required();
  command->add_option("--format", o.format, "What the files are, whatever their names: text or jsonl")
      ->check(CLI::IsMember({"text", "jsonl"}));
  command->add_flag(
      "--skip-invalid", o.corpus.skip_invalid,
      "Leave out lines of JSONL that give no text (no JSON, no such field, null), and count them");
  command->add_option("--field", o.corpus.field, "The field of a JSONL line that holds the text")
      ->capture_default_str();
  command->add_option(
      "--separator", o.corpus.separator,
      "What stands between two documents of a text file (\\n, \\r, \\t and \\\\ as in C); without it a "
      "file is one document");
  command
      ->add_option("--validation-fraction", o.validation_fraction,
                   "Hold out this last part of the text, by bytes, from the next line on")
      ->check(CLI::Range(0.0, 0.99));
}

}  // namespace

int main(int argc, char** argv) {
  Options o;
  CLI::App app{"Trains a tokenizer, encodes text to token datasets, and decodes them.", "genesis_tokenize"};
  app.require_subcommand(1);

  CLI::App* to_train = app.add_subcommand("train", "Learn a tokenizer from text");
  add_corpus_options(to_train, o);
  to_train->add_option("--output", o.output, "The model file to write")->required();
  to_train->add_option("--vocab-size", o.training.vocab_size, "Pieces in all, 256 of them bytes")
      ->transform(integer_in(1, std::numeric_limits<int32_t>::max()))
      ->capture_default_str();
  to_train
      ->add_option("--character-coverage", o.training.character_coverage,
                   "The share of the characters that get a piece; the rest is bytes")
      ->check(CLI::Range(0.98, 1.0))
      ->capture_default_str();
  to_train->add_option("--max-piece-length", o.training.max_piece_length, "In characters")
      ->transform(integer_in(1, 512))
      ->capture_default_str();
  to_train->add_option("--split-digits", o.training.split_digits, "Whether a digit is a piece of its own")
      ->capture_default_str();
  to_train
      ->add_option("--split-by-whitespace", o.training.split_by_whitespace, "Whether a piece is in one word")
      ->capture_default_str();
  to_train
      ->add_option("--max-bytes", o.training.max_bytes, "Learn from an even sample of at most so much text")
      ->transform(integer_in(1))
      ->capture_default_str();

  CLI::App* to_encode = app.add_subcommand("encode", "Encode text to PREFIX.bin, PREFIX.idx and PREFIX.json");
  add_corpus_options(to_encode, o);
  to_encode->add_option("--output", o.output, "PREFIX of the dataset to write")->required();
  to_encode->add_option("--validation-output", o.validation_output, "PREFIX of the held-out part's dataset");

  CLI::App* to_decode = app.add_subcommand("decode", "Write the text of a dataset");
  to_decode->add_option("prefix", o.prefix, "PREFIX of the dataset")->required();
  to_decode->add_option("--output", o.output, "The text file to write; without it, standard output");
  to_decode->add_option("--separator", o.corpus.separator, "To write between two documents");

  for (CLI::App* command : {to_encode, to_decode}) {
    command->add_option("--tokenizer", o.tokenizer, "The tokenizer's model file")->required();
  }
  for (CLI::App* command : {to_train, to_encode, to_decode}) {
    command->add_flag("--force", o.force, "Replace what is there");
  }
  return run_main(app, argc, argv, [&] {
    check(!std::isnan(o.validation_fraction),
          "--validation-fraction: expected a number from 0 to 0.99, found nan");
    if (!o.format.empty()) o.corpus.format = o.format == "text" ? TextFormat::text : TextFormat::jsonl;
    o.corpus.separator = unescaped(o.corpus.separator);
    o.corpus.notice = [](const std::string& line) { std::cerr << line << "\n"; };
    if (*to_train) train(o);
    if (*to_encode) encode(o);
    if (*to_decode) decode(o);
  });
}
