# add_exercise(<chNN> <NN_name>)
#
# An exercise of a chapter, after add_chapter(). Its files, below exercises/:
#   NN_name.cpp                what the reader writes; NN_name.md explains
#   skeletons/, solutions/     NN_name.cpp as it was shipped, and solved
#   grading/NN_name.cpp        the exercise, with the solution in it: library chNN_exercise_NN_grading
#   grading/NN_name_main.cpp   the program that grades OPBOOK_SUBMISSION: chNN_exercise_NN for the
#                              reader's file, chNN_exercise_NN_skeleton for the skeleton
#   test/NN_name_test.cpp      goes into chNN_test
# The reader's program is built only where it is asked for: a half-written file stops nothing else.
function(add_exercise chapter name)
  string(SUBSTRING "${name}" 0 2 number)
  set(exercise ${chapter}_exercise_${number})
  get_filename_component(folder "${CMAKE_CURRENT_SOURCE_DIR}" NAME)

  opbook_library(${exercise}_grading SOURCES exercises/grading/${name}.cpp)
  target_link_libraries(${exercise}_grading PUBLIC ${chapter}_lib opbook::grader)

  set(main exercises/grading/${name}_main.cpp)
  add_executable(${exercise} EXCLUDE_FROM_ALL ${main})
  target_compile_definitions(${exercise} PRIVATE
    OPBOOK_SUBMISSION="${CMAKE_CURRENT_SOURCE_DIR}/exercises/${name}.cpp")
  target_link_libraries(${exercise} PRIVATE ${exercise}_grading)

  add_executable(${exercise}_skeleton ${main})
  target_compile_definitions(${exercise}_skeleton PRIVATE
    OPBOOK_SUBMISSION="${CMAKE_CURRENT_SOURCE_DIR}/exercises/skeletons/${name}.cpp")
  target_link_libraries(${exercise}_skeleton PRIVATE ${exercise}_grading opbook_warnings)
  add_dependencies(${folder} ${exercise}_skeleton)

  if(TARGET ${chapter}_test)
    target_sources(${chapter}_test PRIVATE exercises/test/${name}_test.cpp)
    target_link_libraries(${chapter}_test PRIVATE ${exercise}_grading)
  endif()
endfunction()
