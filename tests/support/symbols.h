// The names of this program's functions, local ones too, from its own symbol table.
#pragma once

#include <cxxabi.h>
#include <elf.h>
#include <link.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

namespace genesis {

// The C++ name of a mangled one.
inline std::string demangled(const std::string& name) {
  char* text = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, nullptr);
  const std::string result = text ? text : name;
  std::free(text);
  return result;
}

class Symbols {
 public:
  Symbols() {
    std::ifstream file("/proc/self/exe", std::ios::binary);
    const std::vector<char> elf((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    const auto header = at<Elf64_Ehdr>(elf, 0);
    for (int i = 0; i < header.e_shnum; ++i) {
      const auto section = at<Elf64_Shdr>(elf, header.e_shoff + size_t(i) * sizeof(Elf64_Shdr));
      if (section.sh_type != SHT_SYMTAB) continue;
      const auto names = at<Elf64_Shdr>(elf, header.e_shoff + section.sh_link * sizeof(Elf64_Shdr));
      for (size_t s = 0; s < section.sh_size; s += sizeof(Elf64_Sym)) {
        const auto symbol = at<Elf64_Sym>(elf, section.sh_offset + s);
        if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC) continue;
        names_[symbol.st_value] = elf.data() + names.sh_offset + symbol.st_name;
      }
    }
  }

  // The mangled name of the function at this address, empty if there is none.
  std::string name_of(const void* function) const {
    const auto it = names_.find(reinterpret_cast<uintptr_t>(function) - load_address());
    return it == names_.end() ? "" : it->second;
  }

 private:
  template <class T>
  static T at(const std::vector<char>& bytes, size_t offset) {
    T value;
    std::memcpy(&value, bytes.data() + offset, sizeof(T));
    return value;
  }

  static uintptr_t load_address() {
    uintptr_t address = 0;
    dl_iterate_phdr(
        [](dl_phdr_info* program, size_t, void* out) {
          *static_cast<uintptr_t*>(out) = program->dlpi_addr;
          return 1;  // the program comes first
        },
        &address);
    return address;
  }

  std::map<uintptr_t, std::string> names_;
};

}  // namespace genesis
