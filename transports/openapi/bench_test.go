package openapi_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gofiber/fiber/v2"

	"github.com/batonrun/baton/transports/openapi"
)

// BenchmarkFirst measures the first request for the document, which generates it.
func BenchmarkFirst(b *testing.B) {
	for b.Loop() {
		app := fiber.New()
		mount(app, openapi.New("v1", true))
		resp, err := app.Test(httptest.NewRequest(http.MethodGet, "/openapi.json", http.NoBody), -1)
		if err != nil {
			b.Fatal(err)
		}
		_ = resp.Body.Close()
	}
}
