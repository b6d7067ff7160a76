# genesis_embed(OUT FILE...): a C++ source that holds text files as genesis::page_files::<name>_<extension>.
function(genesis_embed out)
  set(code "#include <string_view>\nnamespace genesis::page_files {\n")
  foreach(path IN LISTS ARGN)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${path})
    get_filename_component(name ${path} NAME)
    string(MAKE_C_IDENTIFIER ${name} name)
    file(READ ${path} hex HEX)
    string(REGEX REPLACE "(..)" "0x\\1," bytes "${hex}")
    string(APPEND code "static constexpr unsigned char ${name}_bytes[] = {${bytes}0};\n"
                       "extern const std::string_view ${name};\n"
                       "const std::string_view ${name}(reinterpret_cast<const char*>(${name}_bytes), "
                       "sizeof ${name}_bytes - 1);\n")
  endforeach()
  string(APPEND code "}\n")
  set(before "")
  if(EXISTS ${out})
    file(READ ${out} before)
  endif()
  if(NOT code STREQUAL before)
    file(WRITE ${out} "${code}")
  endif()
endfunction()
