# Every library the project uses, found once, by the target name the rest of the build uses.
# scripts/setup.sh installs the packages.
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(Threads REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(fmt REQUIRED)
find_package(simdjson REQUIRED)
find_package(ZLIB REQUIRED)

# Libraries without a CMake package of their own.
function(genesis_find_library target header library)
  find_path(${target}_INCLUDE ${header} REQUIRED)
  find_library(${target}_LIBRARY ${library} REQUIRED)
  add_library(${target} INTERFACE IMPORTED)
  target_include_directories(${target} SYSTEM INTERFACE ${${target}_INCLUDE})
  target_link_libraries(${target} INTERFACE ${${target}_LIBRARY})
endfunction()
genesis_find_library(sentencepiece sentencepiece_processor.h sentencepiece)
genesis_find_library(sentencepiece_train sentencepiece_trainer.h sentencepiece_train)
# Its own CMake package asks for OpenCL on Debian 12, which is not needed.
genesis_find_library(onednn oneapi/dnnl/dnnl.hpp dnnl)
genesis_find_library(zstd zstd.h zstd)
genesis_find_library(xxhash xxhash.h xxhash)
# As Debian and Ubuntu compile it, which their header has to be told (cpp-httplib.pc): its structs differ.
genesis_find_library(httplib httplib.h cpp-httplib)
target_compile_definitions(httplib INTERFACE CPPHTTPLIB_OPENSSL_SUPPORT CPPHTTPLIB_ZLIB_SUPPORT CPPHTTPLIB_BROTLI_SUPPORT)
genesis_find_library(boost_context boost/context/fiber.hpp boost_context)

# yaml-cpp 0.7 names its target without a namespace, 0.8 with one.
if(NOT TARGET yaml-cpp::yaml-cpp)
  add_library(yaml-cpp::yaml-cpp ALIAS yaml-cpp)
endif()

if(GENESIS_TESTS)
  find_package(Catch2 REQUIRED)  # 2 on Debian 12, 3 on Ubuntu 24.04: tests/support/catch.h takes either
endif()
if(GENESIS_BENCH)
  find_package(benchmark REQUIRED)
endif()

set(GENESIS_HAVE_CUDA OFF)
if(GENESIS_CUDA)
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    set(GENESIS_HAVE_CUDA ON)
    set(GENESIS_CUDA_ARCHITECTURES 80-real 89-real 90-real 100-real 120 CACHE STRING
        "GPUs to compile for; one, as in 89-real, builds in a fifth of the time")
    set(CMAKE_CUDA_ARCHITECTURES ${GENESIS_CUDA_ARCHITECTURES})
    enable_language(CUDA)
    # CMake 3.25 does not know that nvcc speaks C++20.
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
    find_package(CUDAToolkit REQUIRED)
    if(NOT TARGET CUDA::cublasLt)
      message(FATAL_ERROR "nvcc is here, but cuBLASLt is not beside it: install the toolkit's cuBLAS (NVIDIA's "
                          "package libcublas-dev-<version>), or build for the CPU alone with -DGENESIS_CUDA=OFF")
    endif()
  else()
    message(STATUS "nvcc not found: building for the CPU alone")
  endif()
endif()
