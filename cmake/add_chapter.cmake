# The shapes that our targets come in. File lists are explicit: what is not named is not built.

# opbook_library(<target> SOURCES ... [CUDA ...] [STUB ...])
#
# A static library. CUDA files form the library <target>_cuda where a CUDA compiler is; elsewhere
# STUB, a plain C++ file with the same functions, stands in for them. Under CMAKE_UNITY_BUILD, which
# halves the work of compiling, several files are one: what is local to them bears different names.
function(opbook_library target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;CUDA;STUB")
  add_library(${target} STATIC ${arg_SOURCES})
  target_link_libraries(${target} PUBLIC opbook_settings PRIVATE opbook_warnings)
  if(arg_CUDA AND OPBOOK_CUDA_FOUND)
    add_library(${target}_cuda STATIC ${arg_CUDA})
    target_link_libraries(${target}_cuda PUBLIC opbook_settings PRIVATE opbook_warnings)
    target_link_libraries(${target} PUBLIC ${target}_cuda)
  else()
    target_sources(${target} PRIVATE ${arg_STUB})
  endif()
endfunction()

# opbook_test(<target> LIBRARIES ... SOURCES ...)
#
# A Catch2 program, and the ctest test of the same name. OPBOOK_TEST_DIR is the folder that its
# sources lie in, for the files that they read. test-results/<target>.xml keeps the verdicts. With
# OPBOOK_TESTS the program has the sources alone that it matches.
function(opbook_test target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "LIBRARIES;SOURCES")
  if(NOT BUILD_TESTING)
    return()
  endif()
  if(OPBOOK_TESTS)
    list(FILTER arg_SOURCES INCLUDE REGEX "${OPBOOK_TESTS}")
  endif()
  add_executable(${target} ${arg_SOURCES})
  target_link_libraries(${target} PRIVATE ${arg_LIBRARIES} opbook_warnings Catch2::Catch2WithMain)
  target_compile_definitions(${target} PRIVATE
    OPBOOK_TEST_DIR="${CMAKE_CURRENT_SOURCE_DIR}/test")
  # Local names of tests are short, and the same in many.
  set_target_properties(${target} PROPERTIES UNITY_BUILD OFF)
  # Tests are compiled more often than they are run; what they test keeps its own flags.
  target_compile_options(${target} PRIVATE "$<$<NOT:$<CONFIG:Debug>>:-O1>")
  add_test(NAME ${target} COMMAND ${target} --reporter console
    --reporter "xml::out=${CMAKE_BINARY_DIR}/test-results/${target}.xml")
  # Threads that wait for each other by spinning keep the cores from the tests that run beside them.
  set_tests_properties(${target} PROPERTIES ENVIRONMENT OMP_WAIT_POLICY=passive)
  file(MAKE_DIRECTORY "${CMAKE_BINARY_DIR}/test-results")
endfunction()

# add_chapter(<chNN> SOURCES ... PROGRAM ... TESTS ... [CUDA ...] [STUB ...])
#
# One chapter: the library chNN_lib (with chNN_lib_cuda, see opbook_library), the program chNN, the
# tests chNN_test, and a target named like the chapter's folder that builds them all. common/ comes
# along where the chapter is built alone.
function(add_chapter chapter)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;PROGRAM;TESTS;CUDA;STUB")
  if(NOT TARGET opbook_common)
    add_subdirectory("${OPBOOK_ROOT}/common" common)
  endif()
  get_filename_component(folder "${CMAKE_CURRENT_SOURCE_DIR}" NAME)
  add_custom_target(${folder})

  opbook_library(${chapter}_lib SOURCES ${arg_SOURCES} CUDA ${arg_CUDA} STUB ${arg_STUB})
  target_link_libraries(${chapter}_lib PUBLIC opbook::common)

  add_executable(${chapter} ${arg_PROGRAM})
  target_link_libraries(${chapter} PRIVATE ${chapter}_lib opbook_warnings)

  opbook_test(${chapter}_test LIBRARIES ${chapter}_lib SOURCES ${arg_TESTS})

  foreach(part IN ITEMS ${chapter}_lib ${chapter} ${chapter}_test)
    if(TARGET ${part})
      add_dependencies(${folder} ${part})
    endif()
  endforeach()
endfunction()
