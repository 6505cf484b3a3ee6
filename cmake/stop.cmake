# opbook_stop(<text>...) ends the configuration. The text is also left in a file, from which the
# reader's command takes it: CMake's own report wraps and surrounds it.
function(opbook_stop)
  string(JOIN "" text ${ARGN})
  file(WRITE "${CMAKE_BINARY_DIR}/why-stopped.txt" "${text}\n")
  message(FATAL_ERROR "${text}")
endfunction()
