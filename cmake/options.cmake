# What every target is compiled with. Use: target_link_libraries(x PRIVATE genesis_options).
add_library(genesis_options INTERFACE)
target_include_directories(genesis_options INTERFACE ${PROJECT_SOURCE_DIR})
target_compile_options(genesis_options INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -Wno-unknown-pragmas>
  # errno and floating traps are never read, and keeping them up would stop loops from being vectorised;
  # unlike -ffast-math these two change no result.
  $<$<COMPILE_LANGUAGE:CXX>:-fno-math-errno -fno-trapping-math>)
# clang warns where it cannot follow an unroll or simd pragma, which are hints.
target_compile_options(genesis_options INTERFACE $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-Wno-pass-failed>)
if(GENESIS_HAVE_CUDA)
  # Constexpr functions are for both sides, std::bit_cast among them.
  target_compile_options(genesis_options INTERFACE
    $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr -Xcompiler=-Wall,-Wextra,-Wno-unknown-pragmas>)
endif()
if(GENESIS_WERROR)
  target_compile_options(genesis_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Werror>)
  if(GENESIS_HAVE_CUDA)
    target_compile_options(genesis_options INTERFACE
      "$<$<COMPILE_LANGUAGE:CUDA>:SHELL:-Werror all-warnings -Xcompiler=-Werror>")
  endif()
endif()
if(GENESIS_NATIVE)
  target_compile_options(genesis_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-march=native>)
endif()
if(GENESIS_SANITIZE)
  target_compile_options(genesis_options INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${GENESIS_SANITIZE} -fno-omit-frame-pointer>)
  target_link_options(genesis_options INTERFACE -fsanitize=${GENESIS_SANITIZE})
endif()

# genesis_library(NAME SOURCES... LINK ...): one static library a room.
function(genesis_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  if(ARG_SOURCES)
    add_library(${name} STATIC ${ARG_SOURCES})
    target_link_libraries(${name} PUBLIC genesis_options ${ARG_LINK})
  else()
    add_library(${name} INTERFACE)
    target_link_libraries(${name} INTERFACE genesis_options ${ARG_LINK})
  endif()
endfunction()

# What a program's cuda:: functions are, by a property of it: ON_HOST_EXECUTOR, kernels by the host executor, for plans
# and for tests of the kernels; ON_CUDA_STANDIN, those, and stand-ins for CUDA's libraries (tests/cuda_standin); neither,
# a GPU. A build without CUDA knows the first alone.
set(GENESIS_ON_HOST_EXECUTOR "$<BOOL:$<TARGET_PROPERTY:ON_HOST_EXECUTOR>>")
set(GENESIS_ON_CUDA_STANDIN "$<BOOL:$<TARGET_PROPERTY:ON_CUDA_STANDIN>>")
set(GENESIS_CUDA_LIBRARIES "$<IF:${GENESIS_ON_CUDA_STANDIN},cuda_standin,CUDA::cudart_static>")
