/* A mapped file that another program cuts off while it is read leaves pages without a file behind them. */
#ifndef TOOL_LOST_PAGES_H
#define TOOL_LOST_PAGES_H

/* From now on reading such a page ends the process with words (E-DATA-103) and TOOL_STORAGE. */
void tool_lost_pages_catch(void);

#endif
