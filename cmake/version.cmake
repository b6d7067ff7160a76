# What --version says of the build: genesis_commit, a library that holds the commit alone, so that a new commit compiles
# one small file again; and apps/build_facts.h for apps/version.cpp.
set(commit_source ${PROJECT_BINARY_DIR}/commit.cpp)
add_custom_target(genesis_find_commit
  COMMAND ${CMAKE_COMMAND} -D SOURCE=${PROJECT_SOURCE_DIR} -D OUTPUT=${commit_source}
          -P ${PROJECT_SOURCE_DIR}/cmake/commit.cmake
  BYPRODUCTS ${commit_source} COMMENT "Looking for a new commit")
add_library(genesis_commit STATIC ${commit_source})
add_dependencies(genesis_commit genesis_find_commit)

set(sentencepiece_version unknown)
get_filename_component(folder ${sentencepiece_LIBRARY} DIRECTORY)
if(EXISTS ${folder}/pkgconfig/sentencepiece.pc)  # its headers have no version
  file(STRINGS ${folder}/pkgconfig/sentencepiece.pc sentencepiece_version REGEX "^Version: ")
  string(REPLACE "Version: " "" sentencepiece_version "${sentencepiece_version}")
endif()
set(cuda_build "built without it")
if(GENESIS_HAVE_CUDA)
  list(JOIN GENESIS_CUDA_ARCHITECTURES " " architectures)
  set(cuda_build "kernels for sm ${architectures}, by nvcc ${CMAKE_CUDA_COMPILER_VERSION}")
endif()
set(compiled_for "any CPU of its kind")
if(GENESIS_NATIVE)
  set(compiled_for "the CPU that compiled it")
endif()
file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/build_facts.h CONTENT [[
#pragma once
#define GENESIS_VERSION "${PROJECT_VERSION}"
#define GENESIS_BUILD "${CMAKE_BUILD_TYPE} for ${compiled_for}"
#define GENESIS_SENTENCEPIECE_VERSION "${sentencepiece_version}"
#define GENESIS_YAML_CPP_VERSION "${yaml-cpp_VERSION}"
#define GENESIS_CUDA_BUILD "${cuda_build}"
]])
set_source_files_properties(version.cpp PROPERTIES INCLUDE_DIRECTORIES ${PROJECT_BINARY_DIR})
