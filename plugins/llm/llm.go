// Package llm is the worker that asks a language model and calls tools for it. A model is a llms.Model of langchaingo;
// the packages below this one are models of providers.
package llm
