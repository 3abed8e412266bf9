# Copies of sources with a planted bug, for controls: a test that misses the bug proves nothing. The
# product has no switches for them.

# mutate(OUTPUT SOURCE FROM TO [FROM TO …]): fails where SOURCE does not contain a FROM.
function(mutate output source)
  file(READ ${CMAKE_CURRENT_SOURCE_DIR}/${source} text)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${source})
  set(changes ${ARGN})
  while(changes)
    list(POP_FRONT changes from to)
    string(FIND "${text}" "${from}" at)
    if(at EQUAL -1)
      message(FATAL_ERROR "${source} has no '${from}' to change")
    endif()
    string(REPLACE "${from}" "${to}" text "${text}")
  endwhile()
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/${output} CONTENT "${text}" @ONLY)
endfunction()
