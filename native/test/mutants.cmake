# Copies of sources with one thing changed, for controls: a test that finds no planted bug proves nothing,
# and the product carries no switches for it.

# mutate(OUTPUT SOURCE FROM TO [FROM TO …]): fails where a text to change is not there.
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
