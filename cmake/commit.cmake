# Run at every build: writes OUTPUT, a C++ source, with the commit of the tree SOURCE. A file that would not change is
# left alone, so that nothing is built again. "unknown" in a tree without git, or inside of another's.
execute_process(COMMAND git rev-parse --show-toplevel WORKING_DIRECTORY ${SOURCE} OUTPUT_VARIABLE top
                OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
set(commit unknown)
file(REAL_PATH ${SOURCE} source)
if(NOT failed AND top STREQUAL source)
  execute_process(COMMAND git describe --always --dirty --abbrev=12 --exclude=* WORKING_DIRECTORY ${SOURCE}
                  OUTPUT_VARIABLE found OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(NOT failed)
    set(commit ${found})
  endif()
endif()
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "namespace genesis {
extern const char* const kCommit;
const char* const kCommit = \"${commit}\";
}  // namespace genesis
")
