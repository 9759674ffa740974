/* Time, for what is volatile: rates, progress, the status file, `created`. */
#ifndef TOOL_CLOCK_H
#define TOOL_CLOCK_H

double tool_clock_s(void);           /* monotonic seconds */
void tool_clock_text(char text[32]); /* now, RFC 3339, UTC */

#endif
