"""Products of narrow operands with wide sums: conversion, dot-product instructions, AMX tiles."""
