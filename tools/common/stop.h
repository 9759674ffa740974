/* SIGINT and SIGTERM as a wish to stop: what is under way is finished first. */
#ifndef TOOL_STOP_H
#define TOOL_STOP_H

/* From here on the first signal is a wish, and the same one a second time ends the process at once. */
void tool_stop_catch(void);
/* The signal's number; 0: none came. */
int tool_stop_signal(void);
/* Readable once a signal came, for poll; -1: there is none. */
int tool_stop_fd(void);

#endif
