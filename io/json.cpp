#include "io/json.h"

#include <set>
#include <vector>

#include "kernels/common/error.h"

namespace genesis {

namespace {

// Refuses what the grammar allows and a file of ours does not hold. nlohmann's parser with a callback would see
// the same, but looks through all of an object's fields after each of them that is an object.
class Strict : public nlohmann::json::json_sax_t {
 public:
  Strict(const std::string& name, size_t max_depth) : name_(name), max_depth_(max_depth) {}

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(size_t) override { return open(); }
  bool start_array(size_t) override { return open(); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& key) override {
    if (!keys_.back().insert(key).second) throw Error(name_ + ": the key '" + key + "' appears twice");
    return true;
  }
  bool parse_error(size_t, const std::string&, const nlohmann::json::exception& error) override {
    throw Error(name_ + ": not JSON: " + error.what());
  }

 private:
  bool open() {
    if (keys_.size() == max_depth_) {
      throw Error(name_ + ": not what was expected: nested deeper than " + std::to_string(max_depth_));
    }
    keys_.emplace_back();
    return true;
  }
  bool close() {
    keys_.pop_back();
    return true;
  }

  const std::string& name_;
  const size_t max_depth_;
  std::vector<std::set<std::string>> keys_;  // seen in each object that is open; empty for an array
};

}  // namespace

nlohmann::json parse_json(std::string_view text, const std::string& name, size_t max_depth) {
  // nlohmann's lexer takes a NUL for the end of its input and would accept anything after it.
  check(text.find('\0') == std::string_view::npos, name + ": not JSON: it holds a NUL byte");
  Strict strict(name, max_depth);
  nlohmann::json::sax_parse(text, &strict);
  try {
    return nlohmann::json::parse(text);
  } catch (const nlohmann::json::exception& error) {
    throw Error(name + ": not JSON: " + error.what());
  }
}

}  // namespace genesis
