# cmake -DNM=nm -DOBJECTS=a.o|b.o -P check_symbols.cmake
#
# Objects that were compiled for more than every machine has may define nothing that the linker could take in place of
# another file's: no weak function, and none of external linkage but the one that hands out their table.
string(REPLACE "|" ";" OBJECTS "${OBJECTS}")
if(NOT OBJECTS)
  message(FATAL_ERROR "no objects to look at")
endif()
foreach(object ${OBJECTS})
  execute_process(COMMAND ${NM} --defined-only --demangle ${object} OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "[0-9a-f]+ [TWiu] [^\n]*" shared "${symbols}")
  list(FILTER shared EXCLUDE REGEX " T banyan::[a-z]+::internal::avx[0-9]+_kernels\\(\\)$")
  if(shared)
    message(FATAL_ERROR "${object} shares: ${shared}")
  endif()
endforeach()
