"""Liquid scheduling: frames of transfers that keep every bottleneck link busy (000 chapter 3). Pure: values in, schedules out."""
